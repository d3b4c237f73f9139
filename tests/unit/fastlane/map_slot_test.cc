// MAP_SLOT: how a trusted client gets the memory of a slot that it has leased on a GPU.

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "daemon/fastlane/fast_lane_server.h"
#include "daemon/fastlane/handshake.h"
#include "daemon/fastlane/lane_socket.h"
#include "daemon/scheduling/expert_core.h"
#include "kernels/cuda/emulated_gpu.h"
#include "moetier/fastlane.h"
#include "tests/support/residency_client.h"
#include "tests/support/scripted_lane.h"
#include "tests/support/temp_folder.h"
#include "tiers/device/cuda_device.h"
#include "tiers/store/importer.h"

namespace moetier::testing {
namespace {

using kernels::cuda::EmulatedGpu;
using kernels::cuda::Sharing;

constexpr uint64_t kSession = 77;
const std::string kToken = "sixteen bytes --";
constexpr std::string_view kCard = "GPU-00000000-0000-0000-0000-000000000000";

Result<std::unique_ptr<Device>> OpenCard(const Clock& clock, Sharing sharing) {
  EmulatedGpu::Options options;
  options.info = {.ordinal = 0,
                  .uuid = std::string(kCard),
                  .name = "Emulated GPU",
                  .compute = 90,
                  .memory = 128_MiB};
  options.granule = (64_KiB).count();
  options.sharing = sharing;
  ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device,
                   CudaDevice::Create({.name = "gpu0", .budget = 32_MiB},
                                      std::make_unique<EmulatedGpu>(options), clock));
  return std::unique_ptr<Device>(std::move(device));
}

// A daemon with the demo model in RAM and on a GPU, and one gRPC session.
class Daemon {
 public:
  explicit Daemon(std::vector<uint32_t> trusted = {getuid()},
                  Sharing sharing = Sharing::kExportable, bool emulated_device = false) {
    ImportOptions import;
    import.model_path = MOETIER_TEST_DATA "/demo-moe/moetier-demo-Q4_K_M.gguf";
    import.store_directory = folder_.File("store");
    REQUIRE(ImportModel(import, HostFileSystem(), nullptr));
    ExpertCore::Options options;
    options.tune_kernels = false;
    options.pin_workers = false;
    options.cpu_workers = 1;
    options.arena.memory = ArenaMemory::kShared;
    if (emulated_device) {
      options.emulated = {{.name = "emulated0", .budget = 32_MiB}};
    } else {
      options.gpu.open.emplace_back(
          [sharing](const Clock& clock) { return OpenCard(clock, sharing); });
    }
    core = ExpertCore::Create(options, clock_, log_).value();
    REQUIRE(core->Load({.name = "demo", .directory = folder_.File("store"), .ram = Percent{100}},
                       [](const ModelProgress&) { return GoOn::kYes; }));
    client.emplace(core->residency(), kSession, core->FindModel("demo")->id, 8_MiB);
    FastLaneServer::Options lane;
    lane.trusted_users = std::move(trusted);
    lane.find_session = [this](uint64_t session, const std::string& token) -> Result<ModelInfo> {
      if (session == kSession && token == kToken) return *core->FindModel("demo");
      return Error{ErrorCode::kNotFound, Reason::kUnknownSession, "no such session"};
    };
    auto listener = UnixListener::Bind(
        {.path = socket() + MOETIER_WIRE_SOCKET, .mode = 0600, .group = {}}, SOCK_SEQPACKET);
    REQUIRE(listener);
    server_ = FastLaneServer::Start(*core, clock_, log_, book_, counters, *std::move(listener),
                                    std::move(lane))
                  .value();
  }
  ~Daemon() { core->SessionEnded(SessionId{kSession}); }

  [[nodiscard]] std::string socket() const { return folder_.File("run/socket"); }
  [[nodiscard]] ExpertKey Key(uint16_t expert) const {
    return {core->FindModel("demo")->id, LayerIndex{0}, ExpertIndex{expert}};
  }
  // A lease on the expert in the pool, to which it is brought first.
  SlotLease Lease(uint16_t expert, PoolId pool) {
    (void)client->Transfer({Key(expert)}, pool).get();
    for (int i = 0; i < 1000; ++i) {
      const auto outcomes = client->Acquire({Key(expert)}, pool).get();
      if (outcomes && std::holds_alternative<SlotLease>(outcomes->front())) {
        return std::get<SlotLease>(outcomes->front());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    FAIL("the expert has not come");
    return {};
  }
  void Release(const SlotLease& lease) {
    REQUIRE(client->Release({lease.lease}).get().value() == 1);
  }
  [[nodiscard]] moetier_map Map(const std::string& socket_path) const {
    moetier_map map{};
    map.size = sizeof map;
    map.socket = socket_path.c_str();
    map.session = kSession;
    map.token = reinterpret_cast<const uint8_t*>(kToken.data());
    map.token_bytes = MOETIER_WIRE_TOKEN;
    return map;
  }
  // The expert's record as RAM has it, by a mapped arena.
  std::vector<std::byte> RecordInRam(uint16_t expert) {
    const SlotLease lease = Lease(expert, kRamPool);
    const std::string path = socket();
    const moetier_map map = Map(path);
    moetier_arena arena{};
    REQUIRE(moetier_map_arena(&map, 10'000'000, &arena, nullptr) == MOETIER_OK);
    const auto* const begin = static_cast<const std::byte*>(arena.memory) + lease.offset;
    std::vector<std::byte> record(begin, begin + lease.bytes);
    moetier_unmap_arena(&arena);
    Release(lease);
    return record;
  }

 private:
  TempFolder folder_;
  SteadyClock clock_;
  spdlog::logger log_{"test"};  // no sinks
  SessionBook book_;

 public:
  ReplyCounters counters;
  std::unique_ptr<ExpertCore> core;
  std::optional<ResidencyClient> client;

 private:
  std::unique_ptr<FastLaneServer> server_;
};

// What the C client makes of it; closed at the end.
struct Opened {
  Opened(const Daemon& daemon, LeaseId lease,
         const std::function<void(moetier_map&)>& change = {}) {
    const std::string path = daemon.socket();
    moetier_map map = daemon.Map(path);
    if (change) change(map);
    status = moetier_open_slot(&map, Raw(lease), 10'000'000, &slot, &error);
    CHECK((slot.granules > 0) == (status == MOETIER_OK));
  }
  ~Opened() { moetier_close_slot(&slot); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  [[nodiscard]] Reason reason() const { return static_cast<Reason>(error.reason); }

  // By memory that is mapped to read, of an emulated GPU.
  [[nodiscard]] std::vector<std::byte> Record() const {
    std::vector<std::byte> all;
    for (uint32_t i = 0; i < slot.granules; ++i) {
      void* const granule = mmap(nullptr, slot.granule, PROT_READ, MAP_SHARED, slot.files[i], 0);
      REQUIRE(granule != MAP_FAILED);
      const auto* const begin = static_cast<const std::byte*>(granule);
      all.insert(all.end(), begin, begin + slot.granule);
      munmap(granule, slot.granule);
    }
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(slot.offset);
    return {begin, begin + static_cast<std::ptrdiff_t>(slot.bytes)};
  }

  moetier_status status = MOETIER_OK;
  moetier_device_slot slot{};
  moetier_error error{};
};

}  // namespace

TEST_CASE("MapSlot: a trusted client reads the record that it has leased on the GPU",
          "[fastlane]") {
  Daemon daemon;
  for (uint16_t expert = 0; expert < 6; ++expert) {
    const std::vector<std::byte> record = daemon.RecordInRam(expert);
    const SlotLease lease = daemon.Lease(expert, kDevicePool);
    const Opened opened(daemon, lease.lease);
    REQUIRE(opened.status == MOETIER_OK);
    CHECK(opened.slot.memory == MOETIER_MEMORY_HOST);
    CHECK(opened.slot.device == kCard);
    CHECK(opened.slot.fingerprint == daemon.core->FindModel("demo")->fingerprint);
    CHECK(opened.slot.bytes == lease.bytes);
    CHECK(opened.Record() == record);
  }
}

TEST_CASE("MapSlot: a budget that shrinks leaves the leased slot what it is", "[fastlane]") {
  Daemon daemon;
  const std::vector<std::byte> record = daemon.RecordInRam(1);
  const SlotLease lease = daemon.Lease(1, kDevicePool);
  const Opened before(daemon, lease.lease);
  REQUIRE(before.status == MOETIER_OK);
  const ModelPool vram{daemon.core->FindModel("demo")->id, kDevicePool};
  REQUIRE(daemon.core->SetBudget(vram, 2_MiB, {}));
  const Opened after(daemon, lease.lease);
  REQUIRE(after.status == MOETIER_OK);
  CHECK(before.Record() == record);
  CHECK(after.Record() == record);
}

TEST_CASE("MapSlot: memory that the daemon has given back stays the client's alone", "[fastlane]") {
  Daemon daemon;
  const SlotLease lease = daemon.Lease(1, kDevicePool);
  const Opened opened(daemon, lease.lease);
  REQUIRE(opened.status == MOETIER_OK);
  const std::vector<std::byte> record = opened.Record();
  daemon.Release(lease);
  REQUIRE(daemon.core->UnloadModel("demo"));
  CHECK(opened.Record() == record);
}

TEST_CASE("MapSlot: who is not trusted is told which key names it, and nothing of sessions",
          "[fastlane]") {
  const Daemon daemon({getuid() + 1});
  const Opened opened(daemon, LeaseId{1}, [](moetier_map& map) { map.session = 1; });
  CHECK(opened.status == MOETIER_REFUSED);
  CHECK(opened.error.code == 7);  // PERMISSION_DENIED
  CHECK_THAT(opened.error.text, Catch::Contains(fmt::format("the user {} ", getuid())) &&
                                    Catch::Contains("fastlane.trusted_users"));
  CHECK(daemon.counters.totals().faults.at(Reason::kBadConfig) == 1);
  const Daemon nobody(std::vector<uint32_t>{});
  CHECK(Opened(nobody, LeaseId{1}).error.code == 7);
}

TEST_CASE("MapSlot: what is no lease of the session on a device is not found", "[fastlane]") {
  Daemon daemon;
  const SlotLease in_ram = daemon.Lease(2, kRamPool);
  const SlotLease ended = daemon.Lease(1, kDevicePool);
  daemon.Release(ended);
  for (const LeaseId lease : {in_ram.lease, ended.lease, LeaseId{0}, LeaseId{UINT64_MAX}}) {
    const Opened opened(daemon, lease);
    CHECK(opened.status == MOETIER_REFUSED);
    CHECK(opened.error.code == 5);  // NOT_FOUND
  }
  const Opened stranger(daemon, ended.lease, [](moetier_map& map) { map.session = 1; });
  CHECK(stranger.reason() == Reason::kUnknownSession);
}

TEST_CASE("MapSlot: a device that gives no memory away says so", "[fastlane]") {
  Daemon closed({getuid()}, Sharing::kNone);
  CHECK(Opened(closed, closed.Lease(1, kDevicePool).lease).error.code == 9);
  Daemon emulated({getuid()}, Sharing::kNone, true);
  CHECK(Opened(emulated, emulated.Lease(1, kDevicePool).lease).reason() == Reason::kNotYet);
}

TEST_CASE("MapSlot: arguments that break the header's rules are said at once", "[fastlane]") {
  const Daemon daemon;
  const auto misuses = [&](const std::function<void(moetier_map&)>& change) {
    return Opened(daemon, LeaseId{1}, change).status == MOETIER_MISUSE;
  };
  CHECK(misuses([](moetier_map& map) { map.size -= 1; }));
  CHECK(misuses([](moetier_map& map) { map.token = nullptr; }));
  CHECK(misuses([](moetier_map& map) { map.token_bytes = 15; }));
  CHECK(moetier_open_slot(nullptr, 1, 0, nullptr, nullptr) == MOETIER_MISUSE);
  moetier_close_slot(nullptr);
}

TEST_CASE("MapSlot: the client takes nothing that does not lie in what came", "[fastlane]") {
  const auto open_from = [](const std::function<void(moetier_wire_device_slot&)>& lie,
                            size_t files_sent = 2) {
    moetier_wire_device_slot answer{};
    answer.head = MakeHead(MOETIER_WIRE_SLOT, sizeof answer);
    answer.granule = 4096;
    answer.offset = 4095;
    answer.bytes = 4097;
    answer.memory = MOETIER_WIRE_MEMORY_HOST;
    answer.file_count = 2;
    lie(answer);
    const UniqueFd memory(memfd_create("granule", MFD_CLOEXEC));
    const ScriptedLane daemon([&](int socket) {
      const std::array<int, 3> files = {memory.get(), memory.get(), memory.get()};
      (void)SendOnLane(socket, std::as_bytes(std::span(&answer, 1)),
                       std::span(files).first(files_sent));
    });
    moetier_map map{};
    map.size = sizeof map;
    map.socket = daemon.path().c_str();
    map.token = reinterpret_cast<const uint8_t*>(kToken.data());
    map.token_bytes = MOETIER_WIRE_TOKEN;
    moetier_device_slot slot{};
    const moetier_status status = moetier_open_slot(&map, 1, 10'000'000, &slot, nullptr);
    moetier_close_slot(&slot);
    return status;
  };
  const auto truth = [](moetier_wire_device_slot&) {};
  CHECK(open_from(truth) == MOETIER_OK);
  for (const size_t files : {0u, 1u, 3u}) CHECK(open_from(truth, files) == MOETIER_UNREACHABLE);
  using Slot = moetier_wire_device_slot;
  const std::vector<std::function<void(Slot&)>> lies = {
      [](Slot& slot) { slot.bytes = 4098; },
      [](Slot& slot) { slot.bytes = 0; },
      [](Slot& slot) { slot.bytes = UINT64_MAX; },
      [](Slot& slot) { slot.offset = 4096; },
      [](Slot& slot) { slot.offset = UINT64_MAX; },
      [](Slot& slot) { slot.granule = 0; },
      [](Slot& slot) { slot.granule = UINT64_MAX; },
      [](Slot& slot) { slot.file_count = 0; },
      [](Slot& slot) { slot.file_count = UINT32_MAX; },
      [](Slot& slot) { std::memset(slot.device, 'x', sizeof slot.device); },
      [](Slot& slot) { slot.head.kind = MOETIER_WIRE_ARENA; },
  };
  for (const auto& lie : lies) CHECK(open_from(lie) == MOETIER_UNREACHABLE);
}

}  // namespace moetier::testing
