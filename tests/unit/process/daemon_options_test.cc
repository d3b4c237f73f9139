#include "daemon/daemon_options.h"

#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "base/open_files.h"
#include "tests/support/temp_folder.h"

namespace moetier {
namespace {

// What main does with a configuration, up to serving; no model, no tuning.
Status Start(const DaemonConfig& config) {
  const SteadyClock clock;
  spdlog::logger log("test");
  RETURN_IF_ERROR(RaiseOpenFileLimit(OpenFilesNeeded(config)));
  ExpertCore::Options options = CoreOptions(config);
  options.tune_kernels = false;
  ASSIGN_OR_RETURN(const std::unique_ptr<ExpertCore> core, ExpertCore::Create(options, clock, log));
  SessionBook sessions;
  ReplyCounters counters;
  ASSIGN_OR_RETURN(RpcDoor door, RpcDoor::Open(DoorOptions(config)));
  ASSIGN_OR_RETURN(UnixListener lane_door,
                   UnixListener::Bind(FastLaneSocket(config), SOCK_SEQPACKET));
  ASSIGN_OR_RETURN(const std::unique_ptr<FastLaneServer> fast_lane,
                   FastLaneServer::Start(*core, clock, log, sessions, counters,
                                         std::move(lane_door), FastLaneOptions(config)));
  ASSIGN_OR_RETURN(const std::unique_ptr<RpcServer> server,
                   RpcServer::Start(*core, clock, log, sessions, counters, std::move(door),
                                    ServerOptions(config)));
  server->BeginDrain();
  fast_lane->Stop(clock.Now());
  CHECK(server->Stop(std::chrono::milliseconds(0)));
  return Ok{};
}

}  // namespace

TEST_CASE("DaemonConfig: both ends of every range start a daemon, what lies beyond is refused",
          "[process]") {
  struct Range {
    std::string before;  // the value stands between them
    std::string after;
    std::vector<const char*> ends;
    std::vector<const char*> beyond;
  };
  const Range ranges[] = {
      {"cpu: {workers: ", "}", {"1", "1024", "auto"}, {"0", "1025", "4294967296"}},
      {"nvme: {queue_depth: ", "}", {"1", "1024"}, {"0", "1025"}},
      {"limits: {sessions: ", "}", {"1", "4096"}, {"0", "4097"}},
      {"limits: {max_rows: ", "}", {"1", "65536"}, {"0", "65537"}},
      {"limits: {max_in_flight: ", "}", {"1", "4096"}, {"0", "4097"}},
      {"limits: {max_message_bytes: ", "}", {"64KiB", "1GiB"}, {"65535", "1073741825", "0"}},
      {"limits: {queue: ", "}", {"1", "65536"}, {"0", "65537"}},
      {"fastlane: {max_sessions: ", "}", {"1", "1024"}, {"0", "1025"}},
      {"fastlane: {max_rows: ", "}", {"1", "8192"}, {"0", "8193"}},
      {"fastlane: {max_in_flight: ", "}", {"1", "256"}, {"0", "257"}},
      {"fastlane: {spin_us: ", "}", {"0", "10000"}, {"10001"}},
      {"fastlane: {memory: ", "}", {"1MiB", "1024GiB"}, {"1048575", "1025GiB", "0"}},
      {"models: {on_demand: {most: ", "}}", {"1", "64"}, {"0", "65"}},
      {"socket: {mode: ", "}", {"0200", "0777"}, {"0000", "1000"}},
  };
  const testing::TempFolder folder;
  for (const Range& range : ranges) {
    const auto parse = [&](const char* value) {
      return ParseConfig(fmt::format("{}\"{}\"{}", range.before, value, range.after), "f");
    };
    for (const char* value : range.ends) {
      INFO(range.before << value);
      Result<DaemonConfig> config = parse(value);
      REQUIRE(config.has_value());
      config->socket.path = folder.File("s");
      config->store_root = folder.path();
      const Status started = Start(*config);
      CHECK((started.has_value() ? "" : started.error().message) == "");
    }
    for (const char* value : range.beyond) {
      INFO(range.before << value);
      CHECK(!parse(value).has_value());
    }
  }
}

TEST_CASE("OddSettings: a root that is no directory is named", "[process]") {
  const testing::TempFolder folder;
  DaemonConfig config;
  config.model_roots = {folder.path(), folder.File("gone")};
  const std::vector<std::string> odd = OddSettings(config);
  REQUIRE(odd.size() == 1);
  CHECK_THAT(odd[0], Catch::StartsWith("models.roots: " + folder.File("gone")));
}

TEST_CASE("OddSettings: shared memory that nobody can map is named", "[process]") {
  DaemonConfig config;
  config.memory.arena = ArenaKind::kShared;
  CHECK(OddSettings(config).empty());
  config.fast_lane.enabled = false;
  REQUIRE(OddSettings(config).size() == 1);
  CHECK_THAT(OddSettings(config)[0], Catch::StartsWith("memory.arena: shared"));
}

TEST_CASE("OpenFilesNeeded: counts all that clients can make the daemon hold", "[process]") {
  DaemonConfig config;
  config.limits.sessions = 1;
  config.fast_lane.enabled = false;
  CHECK(OpenFilesNeeded(config) == 64 + 1);
  DeviceConfig gpu;
  gpu.kind = DeviceKind::kCuda;
  config.devices = {gpu, gpu};
  CHECK(OpenFilesNeeded(config) == 64 + 1 + 2 * 64);
  config.devices.clear();
  config.models.resize(2);
  CHECK(OpenFilesNeeded(config) == 64 + 1 + 2 * 16);
  config.fast_lane = {.enabled = true, .max_sessions = 3};
  config.on_demand = {.stores = true, .files = false, .most = 2};
  // 64 silent connections, 34 whose files are read, 17 that map, with a descriptor each; the 64
  // files of a HELLO and 128 that wait.
  const uint64_t without_files = OpenFilesNeeded(config);
  CHECK(without_files == 64 + 1 + 2 * 16 + 3 * 4 + 64 + 34 + 34 + 64 + 128 + 2 * 16);
  config.on_demand.files = true;  // a brought model may have 64 shards
  CHECK(OpenFilesNeeded(config) == without_files + 2 * (64 - 16));
  config.fast_lane.trusted_users = {0};  // the granules of 17 slots on their way
  CHECK(OpenFilesNeeded(config) == without_files + 2 * (64 - 16) + 17 * 64);
}

TEST_CASE("RowsAboveMessage: rows that no message can hold are named with what would do",
          "[process]") {
  ModelGeometry geometry;
  geometry.hidden = 4096;
  geometry.top_k = 8;
  LimitsConfig limits;
  CHECK(!RowsAboveMessage(limits, "m", geometry));
  limits.max_message_bytes = 1_MiB;
  const std::optional<std::string> odd = RowsAboveMessage(limits, "m", geometry);
  REQUIRE(odd);
  CHECK_THAT(*odd, Catch::Contains("raise the one to 17MiB or lower the other to 127"));
  limits.max_rows = 127;
  CHECK(!RowsAboveMessage(limits, "m", geometry));
}

TEST_CASE("RaiseOpenFileLimit: more than the hard limit is refused with both numbers",
          "[process]") {
  const Status refused = RaiseOpenFileLimit(uint64_t{1} << 40);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code == ErrorCode::kExhausted);
  CHECK_THAT(refused.error().message,
             Catch::StartsWith("1099511627776 open files may be needed, ") &&
                 Catch::Contains("LimitNOFILE"));
}

TEST_CASE("CoreOptions: a configured device is the core's, without one there is none",
          "[process]") {
  DaemonConfig config;
  CHECK(CoreOptions(config).emulated.empty());
  DeviceConfig device;
  device.name = "card";
  device.budget = 3_MiB;
  device.copy_rate = 1_GiB;
  device.copy_latency_us = 7;
  device.lost_after = 9;
  config.devices = {device};
  config.memory.huge_pages = false;
  device.name = "other";
  device.budget = 1_MiB;
  config.devices.push_back(device);
  const std::vector<EmulatedDevice::Options> devices = CoreOptions(config).emulated;
  REQUIRE(devices.size() == 2);
  const EmulatedDevice::Options& options = devices.front();
  CHECK(options.name == "card");
  CHECK(options.budget == 3_MiB);
  CHECK(options.copy_rate == 1024.0 * 1024 * 1024);
  CHECK(options.copy_latency == std::chrono::microseconds(7));
  CHECK(options.lost_after == 9);
  CHECK(options.memory.pages == PageSize::kSmall);
  CHECK(devices.back().name == "other");
  CHECK(devices.back().budget == 1_MiB);
}

TEST_CASE("GpusFor: the listed GPUs, the first if none is, none when they are off", "[process]") {
  using Want = ExpertCore::GpuOptions::Want;
  DaemonConfig config;
  REQUIRE(GpusFor(config).choices.size() == 1);
  CHECK(GpusFor(config).want == Want::kIfThere);
  CHECK(!GpusFor(config).choices[0].exportable);
  config.fast_lane.trusted_users = {1000};
  CHECK(GpusFor(config).choices[0].exportable);
  CHECK(FastLaneOptions(config).trusted_users == std::vector<uint32_t>{1000});
  CHECK(GpusFor(config).choices[0].uuid.empty());
  CHECK(!GpusFor(config).choices[0].budget);
  config.gpu = UseGpu::kRequired;
  CHECK(GpusFor(config).want == Want::kRequired);
  DeviceConfig device;
  device.kind = DeviceKind::kCuda;
  device.name = "card";
  device.uuid = "GPU-4d1cf9ab-0000-1111-2222-333344445555";
  device.budget = 3_GiB;
  device.reserve = 5_MiB;
  config.devices = {device, device};
  config.devices.back().name = "other";
  CHECK(GpusFor(config).want == Want::kRequired);
  config.gpu = UseGpu::kAuto;
  const GpusWanted wanted = GpusFor(config);
  CHECK(wanted.want == Want::kListed);
  REQUIRE(wanted.choices.size() == 2);
  CHECK(wanted.choices[0].name == "card");
  CHECK(wanted.choices[0].uuid == device.uuid);
  CHECK(wanted.choices[0].budget == 3_GiB);
  CHECK(wanted.choices[0].reserve == 5_MiB);
  CHECK(wanted.choices[1].name == "other");
  CHECK(wanted.choices[1].number == 1);
  CHECK(wanted.choices[1].exportable);
  CHECK(CoreOptions(config).emulated.empty());
  config.gpu = UseGpu::kOff;
  CHECK(GpusFor(config).choices.empty());
  config.gpu = UseGpu::kAuto;
  for (DeviceConfig& each : config.devices) each.kind = DeviceKind::kEmulated;
  CHECK(GpusFor(config).choices.empty());
  CHECK(CoreOptions(config).emulated[1].number == 1);
}

TEST_CASE("ModelOptionsFor: what a model has of the device", "[process]") {
  ModelConfig model;
  CHECK(ModelOptionsFor(model).vram == MemoryBudget(Percent{100}));
  model.vram.reset();
  model.vram_policy = "clock";
  model.vram_admission = VramAdmissionChoice::kSecondTouch;
  const ModelOptions options = ModelOptionsFor(model);
  CHECK(!options.vram);
  CHECK(options.vram_policy == "clock");
  CHECK(options.vram_admission == VramAdmission::kSecondTouch);
}

}  // namespace moetier
