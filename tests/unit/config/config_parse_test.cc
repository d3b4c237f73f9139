#include <catch2/catch.hpp>
#include <string>

#include "base/file_io.h"
#include "config/config.h"

namespace moetier {
namespace {

// The message of a text that must be refused.
std::string RefusalOf(const std::string& text) {
  const Result<DaemonConfig> config = ParseConfig(text, "f.yaml");
  REQUIRE(!config.has_value());
  CHECK(config.error().code == ErrorCode::kInvalidArgument);
  CHECK(config.error().reason == Reason::kBadConfig);
  return config.error().message;
}

struct Refused {
  const char* text;
  const char* message;
};

constexpr const char* kSizes = "(units: B, KiB, MiB, GiB, TiB, KB, MB, GB, TB)";

}  // namespace

TEST_CASE("ParseConfig: an empty text gives the defaults", "[config]") {
  CHECK(ParseConfig("", "f.yaml").value() == DaemonConfig{});
  CHECK(ParseConfig("# only a comment\n", "f.yaml").value() == DaemonConfig{});
  CHECK(ParseConfig("socket:\nmodels:\ntcp:\n", "f.yaml").value() == DaemonConfig{});
}

TEST_CASE("ParseConfig: the file that is installed says nothing but the defaults", "[config]") {
  const std::string path = std::string(MOETIER_TEST_DATA) + "/../../config/moetierd.yaml";
  const std::string text = ReadTextFile(path, kMaxConfigBytes).value();
  CHECK(ParseConfig(text, path).value() == DaemonConfig{});
}

TEST_CASE("ParseConfig: the installed file's commented keys are accepted with their defaults",
          "[config]") {
  const std::string path = std::string(MOETIER_TEST_DATA) + "/../../config/moetierd.yaml";
  const std::string text = ReadTextFile(path, kMaxConfigBytes).value();
  // A comment sign directly before a key comments it out; a sign and a space begin prose.
  std::string opened;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    std::string line = text.substr(begin, end - begin);
    const size_t sign = line.find_first_not_of(' ');
    const bool commented_key = sign != std::string::npos && line[sign] == '#' &&
                               sign + 1 < line.size() && line[sign + 1] != ' ' &&
                               line.find(':') != std::string::npos;
    const bool commented_item = line.starts_with("  #  ");
    if (commented_key || commented_item) line.erase(line.find('#'), 1);
    opened += line + "\n";
    begin = end + 1;
  }
  const Result<DaemonConfig> config = ParseConfig(opened, "opened.yaml");
  INFO(opened);
  if (!config) FAIL(config.error().message);
  DaemonConfig expected;
  expected.state_directory = "/var/lib/moetierd";
  expected.socket = {.path = "/run/moetierd/moetierd.sock", .mode = 0660, .group = "moetier"};
  expected.tcp = TcpConfig{.address = "127.0.0.1:7430",
                           .tls_certificate = "/etc/moetier/server.crt",
                           .tls_key = "/etc/moetier/server.key",
                           .token_file = "/etc/moetier/token"};
  expected.store_root = "/var/lib/moetierd/stores";
  expected.model_roots = {"/srv/models"};
  ModelConfig model;
  model.name = "qwen3";
  model.path = "qwen3-30b-a3b";
  expected.models = {model};
  DeviceConfig device;
  device.kind = DeviceKind::kCuda;
  device.name = "gpu0";
  expected.devices = {device};
  CHECK(*config == expected);
}

TEST_CASE("ParseConfig: a device and what a model has of it", "[config]") {
  const DaemonConfig config =
      ParseConfig(
          "devices:\n"
          "  - {kind: emulated, name: card, budget: 2GiB, copy_rate: 1GiB,\n"
          "     copy_latency_us: 7, lost_after: 9}\n"
          "models:\n  load:\n"
          "    - {name: a, path: a, vram: 30%, vram_policy: 'heat:64',\n"
          "       vram_admission: second_touch}\n"
          "    - {name: b, path: b, vram: none}\n",
          "f.yaml")
          .value();
  DeviceConfig device;
  device.name = "card";
  device.budget = 2_GiB;
  device.copy_rate = 1_GiB;
  device.copy_latency_us = 7;
  device.lost_after = 9;
  CHECK(config.devices == std::vector{device});
  REQUIRE(config.models.size() == 2);
  CHECK(config.models[0].vram == MemoryBudget(Percent{30}));
  CHECK(config.models[0].vram_policy == "heat:64");
  CHECK(config.models[0].vram_admission == VramAdmissionChoice::kSecondTouch);
  CHECK(!config.models[1].vram);
}

TEST_CASE("ParseConfig: a GPU by its UUID, with a budget or what is free", "[config]") {
  DeviceConfig device;
  device.kind = DeviceKind::kCuda;
  device.name = "gpu0";
  CHECK(ParseConfig("devices: [{kind: cuda}]", "f.yaml")->devices == std::vector{device});
  CHECK(ParseConfig("devices: [{budget: auto, kind: cuda}]", "f.yaml")->devices ==
        std::vector{device});
  device.name = "card";
  device.budget = 9_GiB;
  device.reserve = 1_GiB;
  device.uuid = "GPU-4d1cf9ab-0000-1111-2222-33334444abcd";  // as the driver spells it
  CHECK(ParseConfig("devices: [{kind: cuda, name: card, budget: 9GiB, reserve: 1GiB,\n"
                    "           uuid: GPU-4d1cf9ab-0000-1111-2222-33334444aBcD}]",
                    "f.yaml")
            ->devices == std::vector{device});
  CHECK(ParseConfig("gpu: off", "f.yaml")->gpu == UseGpu::kOff);
  CHECK(ParseConfig("gpu: required", "f.yaml")->gpu == UseGpu::kRequired);
  CHECK(ParseConfig("", "f.yaml")->gpu == UseGpu::kAuto);
}

TEST_CASE("ParseConfig: a device that is incomplete, unknown or a second one is refused",
          "[config]") {
  CHECK_THAT(RefusalOf("devices: [{kind: emulated}]"),
             Catch::StartsWith("f.yaml:1: devices[0]: `budget` is missing"));
  CHECK_THAT(RefusalOf("devices: [{budget: 1GiB}]"),
             Catch::StartsWith("f.yaml:1: devices[0]: `kind` is missing"));
  CHECK_THAT(RefusalOf("devices: [{kind: rocm, budget: 1GiB}]"),
             Catch::StartsWith("f.yaml:1: devices[0].kind: `rocm` is none of the choices"));
  CHECK_THAT(RefusalOf("devices: [{kind: cuda, copy_rate: 1GiB}]"),
             Catch::StartsWith("f.yaml:1: devices[0].copy_rate: "));
  CHECK_THAT(RefusalOf("devices: [{kind: emulated, budget: auto}]"),
             Catch::StartsWith("f.yaml:1: devices[0].budget: "));
  CHECK_THAT(RefusalOf("devices: [{kind: cuda, uuid: GPU-1}]"),
             Catch::StartsWith("f.yaml:1: devices[0].uuid: `GPU-1` is not the UUID of a GPU"));
  CHECK_THAT(
      RefusalOf("devices: [{kind: emulated, budget: 1GiB}]\ngpu: required"),
      Catch::StartsWith("f.yaml:2: gpu: a GPU is required, and `devices` lists an emulated"));
}

TEST_CASE("ParseConfig: several devices are of one kind, each with a name, and GPUs with a UUID",
          "[config]") {
  const auto two = [](std::string_view first, std::string_view second) {
    return RefusalOf(fmt::format("devices: [{{{}}}, {{{}}}]", first, second));
  };
  const std::string uuid = "uuid: GPU-4d1cf9ab-0000-1111-2222-33334444555";
  CHECK_THAT(two("kind: emulated, budget: 1GiB", "kind: cuda"),
             Catch::Contains("devices[1]: emulated devices and GPUs are not used together"));
  CHECK_THAT(two("kind: emulated, budget: 1GiB, name: a", "kind: emulated, budget: 1GiB, name: a"),
             Catch::Contains("devices[1]: a second device of the name a"));
  CHECK_THAT(two("kind: cuda, " + uuid + "5", "kind: cuda"),
             Catch::Contains("devices[1]: several GPUs, and one without `uuid`"));
  CHECK_THAT(two("kind: cuda", "kind: cuda, " + uuid + "5"),
             Catch::Contains("devices[1]: several GPUs, and one without `uuid`"));
  CHECK_THAT(two("kind: cuda, " + uuid + "5", "kind: cuda, " + uuid + "5"),
             Catch::Contains("devices[1]: a second device of the uuid GPU-4d1cf9ab"));
  std::string many;
  for (int i = 0; i < 17; ++i) many += "{kind: emulated, budget: 1GiB},";
  CHECK_THAT(RefusalOf("devices: [" + many + "]"),
             Catch::Contains("devices[16]: too many devices"));
  const auto config = ParseConfig(
      fmt::format("devices: [{{kind: cuda, {0}5, budget: 3GiB}}, {{kind: cuda, {0}6}}]", uuid),
      "f.yaml");
  REQUIRE(config);
  REQUIRE(config->devices.size() == 2);
  CHECK(config->devices[0].name == "gpu0");
  CHECK(config->devices[0].budget == 3_GiB);
  CHECK(config->devices[1].name == "gpu1");
  CHECK(!config->devices[1].budget);
}

TEST_CASE("ParseConfig: every key's value lands in its field", "[config]") {
  const DaemonConfig config = ParseConfig(R"(
state_directory: /s
socket: {path: /run/x.sock, mode: "0600", group: users}
tcp: {address: "[::1]:80", tls_certificate: /c, tls_key: /k, token_file: /t}
store_root: /stores
models:
  roots: [/a, /b]
  load:
    - {name: a-1.B_2, path: demo, ram: 12GiB, policy: "lfu:32:500", verify_on_landing: always, exact: stall}
    - {name: second, path: /m.gguf, ram: 12.5%, policy: "heat:64", verify_on_landing: never, preheat: off}
  on_demand: {stores: false, files: false, most: 7, ram: 3GiB}
cpu: {workers: 3, instruction_set: avx2, tune: false}
nvme: {engine: preadv, mode: buffered, queue_depth: 7}
prefetch: {enabled: false, router: false, hints: false, history: true, depth: 2, guesses: 5, in_flight: 3}
memory: {arena: shared, huge_pages: false, lock: true}
limits: {sessions: 1, max_rows: 2, max_in_flight: 3, max_message_bytes: 1MiB, queue: 5, leased: 40%}
fastlane: {enabled: false, max_sessions: 6, max_rows: 7, max_in_flight: 8, spin_us: 9, memory: 3MiB, trusted_users: [0, 1000]}
log: {level: error}
watchdog: false
)",
                                          "f.yaml")
                                  .value();
  CHECK(config.state_directory == "/s");
  CHECK(config.socket == SocketConfig{.path = "/run/x.sock", .mode = 0600, .group = "users"});
  CHECK(config.tcp.value() ==
        TcpConfig{
            .address = "[::1]:80", .tls_certificate = "/c", .tls_key = "/k", .token_file = "/t"});
  CHECK(config.store_root == "/stores");
  CHECK(config.model_roots == std::vector<std::string>{"/a", "/b"});
  CHECK(config.on_demand ==
        OnDemandConfig{.stores = false, .files = false, .most = 7, .ram = 3_GiB});
  REQUIRE(config.models.size() == 2);
  CHECK(config.models[0] == ModelConfig{.name = "a-1.B_2",
                                        .path = "demo",
                                        .ram = 12_GiB,
                                        .policy = "lfu:32:500",
                                        .verify_on_landing = VerifyOnLanding::kAlways,
                                        .exact = ExactMode::kStall});
  CHECK(config.models[1].ram == MemoryBudget(Percent{12.5}));
  CHECK(config.models[1].policy == "heat:64");
  CHECK(config.models[1].verify_on_landing == VerifyOnLanding::kNever);
  CHECK_FALSE(config.models[1].preheat);
  CHECK(config.cpu ==
        CpuConfig{.workers = 3, .instruction_set = InstructionSetChoice::kAvx2, .tune = false});
  CHECK(config.prefetch == PrefetchConfig{.enabled = false,
                                          .router = false,
                                          .hints = false,
                                          .history = true,
                                          .depth = 2,
                                          .guesses = 5,
                                          .in_flight = 3});
  CHECK(config.nvme ==
        NvmeConfig{.engine = ReadEngine::kPreadv, .mode = ReadMode::kBuffered, .queue_depth = 7});
  CHECK(config.memory ==
        MemoryConfig{.arena = ArenaKind::kShared, .huge_pages = false, .lock = LockMemory::kYes});
  CHECK(config.limits == LimitsConfig{.sessions = 1,
                                      .max_rows = 2,
                                      .max_in_flight = 3,
                                      .max_message_bytes = 1_MiB,
                                      .queue = 5,
                                      .leased = Percent{40}});
  CHECK(config.fast_lane == FastLaneConfig{.enabled = false,
                                           .max_sessions = 6,
                                           .max_rows = 7,
                                           .max_in_flight = 8,
                                           .spin_us = 9,
                                           .memory = 3_MiB,
                                           .trusted_users = {0, 1000}});
  CHECK(config.log_level == LogLevel::kError);
  CHECK(!config.watchdog);
}

TEST_CASE("ParseConfig: a refusal names file, line, key and what is allowed", "[config]") {
  const std::string limit_sizes = fmt::format("64.0 KiB to 1.00 GiB {}", kSizes);
  const std::vector<Refused> cases = {
      {"cpu:\n  worker: 3\n",
       "f.yaml:2: cpu.worker: unknown key, did you mean `workers`?; allowed: workers, "
       "instruction_set, tune"},
      {"zzzzzz: 3\n",
       "f.yaml:1: zzzzzz: unknown key; allowed: state_directory, socket, tcp, store_root, models, "
       "cpu, nvme, prefetch, memory, gpu, devices, limits, fastlane, log, watchdog"},
      {"cpu: {workers: 0}",
       "f.yaml:1: cpu.workers: `0` is not a number of threads; allowed: auto, "
       "1 to 1024"},
      {"cpu: {instruction_set: avx3}",
       "f.yaml:1: cpu.instruction_set: `avx3` is none of the choices, did you mean `avx2`?; "
       "allowed: auto, scalar, avx2, avx512"},
      {"cpu: {tune: yes}",
       "f.yaml:1: cpu.tune: `yes` is none of the choices; allowed: true, false"},
      {"cpu: [1]",
       "f.yaml:1: cpu: a map of keys is expected here; allowed: workers, instruction_set, tune"},
      {"cpu: {workers: [1]}",
       "f.yaml:1: cpu.workers: a list where one value is expected; allowed: "
       "auto or a number of threads"},
      {"cpu: {workers: {a: 1}}",
       "f.yaml:1: cpu.workers: a map where one value is expected; "
       "allowed: auto or a number of threads"},
      {"cpu:\n  workers:\n",
       "f.yaml:2: cpu.workers: the value is missing; allowed: auto or a "
       "number of threads"},
      {"\n\nnvme: {queue_depth: 4096}",
       "f.yaml:3: nvme.queue_depth: 4096 is out of range; allowed: 1 to 1024"},
      {"prefetch: {depth: 5}", "f.yaml:1: prefetch.depth: 5 is out of range; allowed: 1 to 4"},
      {"nvme: {queue_depth: 0x10}",
       "f.yaml:1: nvme.queue_depth: `0x10` is not a whole number; allowed: 1 to 1024"},
      {"nvme: {queue_depth: 99999999999}",
       "f.yaml:1: nvme.queue_depth: `99999999999` is not a whole number; allowed: 1 to 1024"},
      {"socket: {mode: 0999}",
       "f.yaml:1: socket.mode: `0999` is not a file mode; allowed: octal "
       "permission bits such as 0660"},
      {"socket: {mode: \"0000\"}",
       "f.yaml:1: socket.mode: with `0000` nobody may connect; allowed: octal permission bits with "
       "a write bit, such as 0660"},
      {"memory: {lock: maybe}",
       "f.yaml:1: memory.lock: `maybe` is none of the choices; allowed: auto, true, false"},
      {"- a",
       "f.yaml:1: a map of keys is expected here; allowed: state_directory, socket, tcp, "
       "store_root, models, cpu, nvme, prefetch, memory, gpu, devices, limits, fastlane, log, "
       "watchdog"},
      {"socket: {path: run/x}",
       "f.yaml:1: socket.path: `run/x` is not an absolute path; allowed: "
       "a path that starts with /"},
      {"socket: {path: \"\"}", "f.yaml:1: socket.path: the value is empty; allowed: text"},
      {"tcp: {address: \"localhost:80\"}",
       "f.yaml:1: tcp: `tls_certificate` is missing; allowed: address, tls_certificate, tls_key "
       "and token_file together, since TCP is served only with TLS and a token"},
      {"tcp: {address: localhost}",
       "f.yaml:1: tcp.address: `localhost` is not an address; "
       "allowed: HOST:PORT or [IPV6]:PORT with a port of 1 to 65535"},
      {"tcp: {address: \"::1:80\"}",
       "f.yaml:1: tcp.address: `::1:80` is not an address; allowed: "
       "HOST:PORT or [IPV6]:PORT with a port of 1 to 65535"},
      {"limits: {max_message_bytes: 12 parsecs}",
       "f.yaml:1: limits.max_message_bytes: `12 parsecs` is not a size; allowed: 64.0 KiB to 1.00 "
       "GiB (units: B, KiB, MiB, GiB, TiB, KB, MB, GB, TB)"},
      {"limits: {max_message_bytes: 1}",
       "f.yaml:1: limits.max_message_bytes: 1 B is out of range; allowed: 64.0 KiB to 1.00 GiB "
       "(units: B, KiB, MiB, GiB, TiB, KB, MB, GB, TB)"},
      {"devices: [{kind: emulated, budget: 1GiB, name: cpu}]",
       "f.yaml:1: devices[0].name: `cpu` is the host's own pool or lane; allowed: any other name: "
       "1 "
       "to 64 letters, digits, `.`, `_`, `-`"},
      {"devices: [{kind: emulated, budget: 1GiB, name: ram0}]",
       "f.yaml:1: devices[0].name: `ram0` is the host's own pool or lane; allowed: any other name: "
       "1 "
       "to 64 letters, digits, `.`, `_`, `-`"},
      {"limits: {leased: 0}",
       "f.yaml:1: limits.leased: `0` is not a memory budget; allowed: none, a size such as 12GiB, "
       "or a share of the model's expert bytes such as 25% (above 0%, at most 100%)"},
      {"log: {level: warn}",
       "f.yaml:1: log.level: `warn` is none of the choices; allowed: debug, "
       "info, warning, error"},
      {"models: [a]",
       "f.yaml:1: models: a map of keys is expected here; allowed: roots, load, "
       "on_demand"},
      {"models: {roots: /a}",
       "f.yaml:1: models.roots: a list is expected here; allowed: a list of "
       "absolute directories"},
      {"models: {roots: [/a, b]}",
       "f.yaml:1: models.roots[1]: `b` is not an absolute path; "
       "allowed: a path that starts with /"},
  };
  for (const Refused& refused : cases) {
    INFO(refused.text);
    CHECK(RefusalOf(refused.text) == refused.message);
  }
}

TEST_CASE("ParseConfig: a model's faults are named with its place in the list", "[config]") {
  const std::string good = "models:\n  load:\n  - {name: a, path: p}\n";
  REQUIRE(ParseConfig(good, "f.yaml").has_value());
  const std::vector<Refused> cases = {
      {"  - {name: a, path: q}\n",
       "f.yaml:4: models.load[1]: the name `a` is given twice; allowed: one entry a name"},
      {"  - {path: q}\n",
       "f.yaml:4: models.load[1]: `name` is missing; allowed: name and path, and what is optional: "
       "ram, policy, verify_on_landing, exact, preheat, vram, vram_policy, vram_admission"},
      {"  - {name: b}\n",
       "f.yaml:4: models.load[1]: `path` is missing; allowed: name and path, and what is optional: "
       "ram, policy, verify_on_landing, exact, preheat, vram, vram_policy, vram_admission"},
      {"  - {name: a/b, path: q}\n",
       "f.yaml:4: models.load[1].name: `a/b` is not a model name; allowed: 1 to 64 letters, "
       "digits, `.`, `_`, `-`"},
      {"  - {name: b, path: q, ram: 0%}\n",
       "f.yaml:4: models.load[1].ram: `0%` is not a share; allowed: a size such as 12GiB, or a "
       "share of the model's expert bytes such as 25% (above 0%, at most 100%)"},
      {"  - {name: b, path: q, ram: 101%}\n",
       "f.yaml:4: models.load[1].ram: `101%` is not a share; allowed: a size such as 12GiB, or a "
       "share of the model's expert bytes such as 25% (above 0%, at most 100%)"},
      {"  - {name: b, path: q, ram: 12GB/s}\n",
       "f.yaml:4: models.load[1].ram: `12GB/s` is not a memory budget; allowed: a size such as "
       "12GiB, or a share of the model's expert bytes such as 25% (above 0%, at most 100%)"},
      {"  - {name: b, path: q, vram: 0}\n",
       "f.yaml:4: models.load[1].vram: `0` is not a memory budget; allowed: none, a size such as "
       "12GiB, or a share of the model's expert bytes such as 25% (above 0%, at most 100%)"},
      {"  - {name: b, path: q, policy: fifo}\n",
       "f.yaml:4: models.load[1].policy: `fifo` is not an eviction policy; allowed: lru, clock, "
       "lfu:WINDOW:HALF_LIFE (such as lfu:32:0), heat, heat:HALF_LIFE, static"},
      {"  - {name: b, path: q, policy: \"lfu:0:1\"}\n",
       "f.yaml:4: models.load[1].policy: `lfu:0:1` is not an eviction policy; allowed: lru, clock, "
       "lfu:WINDOW:HALF_LIFE (such as lfu:32:0), heat, heat:HALF_LIFE, static"},
      {"  - {name: b, path: q, policy: \"heat:\"}\n",
       "f.yaml:4: models.load[1].policy: `heat:` is not an eviction policy; allowed: lru, clock, "
       "lfu:WINDOW:HALF_LIFE (such as lfu:32:0), heat, heat:HALF_LIFE, static"},
      {"  - {name: b, path: q, exact: almost}\n",
       "f.yaml:4: models.load[1].exact: `almost` is none of the choices; allowed: stall, mask"},
  };
  for (const Refused& refused : cases) {
    INFO(refused.text);
    CHECK(RefusalOf(good + refused.text) == refused.message);
  }
}

TEST_CASE("ResolveBudget: a share is of the model's bytes, rounded up, and 100% is all",
          "[config]") {
  CHECK(ResolveBudget(Percent{25}, 1000_B) == 250_B);
  CHECK(ResolveBudget(Percent{25}, 1001_B) == 251_B);
  CHECK(ResolveBudget(Percent{100}, Bytes((uint64_t{1} << 60) + 1)) ==
        Bytes((uint64_t{1} << 60) + 1));
  CHECK(ResolveBudget(3_MiB, 1_KiB) == 1_KiB);  // at most the model
  CHECK(ResolveBudget(1_KiB, 3_MiB) == 1_KiB);
}

}  // namespace moetier
