#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>

#include "config/config.h"

namespace moetier {
namespace {

EnvironmentLookup Environment(std::map<std::string, std::string> variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

}  // namespace

TEST_CASE("ApplyEnvironment: a variable wins over the file", "[config]") {
  DaemonConfig config =
      ParseConfig("socket: {path: /f.sock}\ncpu: {workers: 2, instruction_set: avx2}\n", "f")
          .value();
  REQUIRE(ApplyEnvironment(Environment({{"MOETIER_SOCKET", "/e.sock"},
                                        {"MOETIER_STATE_DIRECTORY", "/state"},
                                        {"MOETIER_STORE_ROOT", "/stores"},
                                        {"MOETIER_INSTRUCTION_SET", "scalar"},
                                        {"MOETIER_CPU_WORKERS", "auto"},
                                        {"MOETIER_NVME_ENGINE", "preadv"},
                                        {"MOETIER_NVME_MODE", "buffered"},
                                        {"MOETIER_LOG_LEVEL", "debug"}}),
                           config)
              .has_value());
  CHECK(config.socket.path == "/e.sock");
  CHECK(config.state_directory == "/state");
  CHECK(config.store_root == "/stores");
  CHECK(config.cpu.instruction_set == InstructionSetChoice::kScalar);
  CHECK(config.cpu.workers == 0);
  CHECK(config.nvme.engine == ReadEngine::kPreadv);
  CHECK(config.nvme.mode == ReadMode::kBuffered);
  CHECK(config.log_level == LogLevel::kDebug);
}

TEST_CASE("ApplyEnvironment: a bad variable is refused by its name", "[config]") {
  DaemonConfig config;
  const Status status = ApplyEnvironment(Environment({{"MOETIER_INSTRUCTION_SET", "sse"}}), config);
  REQUIRE(!status.has_value());
  CHECK(status.error().message ==
        "environment: MOETIER_INSTRUCTION_SET: `sse` is none of the choices; allowed: auto, "
        "scalar, avx2, avx512");
  CHECK(status.error().reason == Reason::kBadConfig);
}

TEST_CASE("ApplyEnvironment: directories come from systemd, else the user, else the system",
          "[config]") {
  DaemonConfig unit;
  REQUIRE(ApplyEnvironment(Environment({{"STATE_DIRECTORY", "/var/lib/x:/var/lib/y"},
                                        {"RUNTIME_DIRECTORY", "/run/x"},
                                        {"XDG_RUNTIME_DIR", "/run/user/1"}}),
                           unit)
              .has_value());
  CHECK(unit.state_directory == "/var/lib/x");
  CHECK(unit.socket.path == "/run/x/moetierd.sock");
  CHECK(unit.store_root == "/var/lib/x/stores");

  DaemonConfig user;
  REQUIRE(
      ApplyEnvironment(Environment({{"XDG_RUNTIME_DIR", "/run/user/1"}, {"HOME", "/home/a"}}), user)
          .has_value());
  CHECK(user.state_directory == "/home/a/.local/state/moetierd");
  CHECK(user.socket.path == "/run/user/1/moetierd/moetierd.sock");

  DaemonConfig system;
  REQUIRE(ApplyEnvironment(Environment({{"HOME", "/root"}}), system).has_value());
  CHECK(system.state_directory == "/var/lib/moetierd");
  CHECK(system.socket.path == "/run/moetierd/moetierd.sock");
}

TEST_CASE("DefaultSocketPath: a client looks where the daemon of the same user binds", "[config]") {
  const EnvironmentLookup user = Environment({{"XDG_RUNTIME_DIR", "/run/user/1"}, {"HOME", "/h"}});
  DaemonConfig config;
  REQUIRE(ApplyEnvironment(user, config).has_value());
  CHECK(DefaultSocketPath(user) == config.socket.path);
  CHECK(DefaultSocketPath(Environment({{"MOETIER_SOCKET", "/x"}})) == "/x");
}

TEST_CASE("ApplyEnvironment: a relative model path starts at the store root", "[config]") {
  DaemonConfig config =
      ParseConfig("models: {load: [{name: a, path: demo}, {name: b, path: /abs}]}", "f").value();
  REQUIRE(ApplyEnvironment(Environment({{"MOETIER_STORE_ROOT", "/stores"}}), config).has_value());
  CHECK(config.models[0].path == "/stores/demo");
  CHECK(config.models[1].path == "/abs");
}

TEST_CASE("LoadConfig: reads the file, and names it when it is not there", "[config]") {
  const std::string path = std::filesystem::temp_directory_path() /
                           fmt::format("moetier-config-{}.yaml", std::random_device()());
  std::ofstream(path) << "limits: {sessions: 3}\n";
  const Result<DaemonConfig> config = LoadConfig(path);
  std::filesystem::remove(path);
  REQUIRE(config.has_value());
  CHECK(config->limits.sessions == 3);
  CHECK(!config->socket.path.empty());

  const Result<DaemonConfig> missing = LoadConfig(path);
  REQUIRE(!missing.has_value());
  CHECK(missing.error().code == ErrorCode::kNotFound);
  CHECK(missing.error().message.find(path) != std::string::npos);
  CHECK(missing.error().message.find("copy config/moetierd.yaml") != std::string::npos);
}

}  // namespace moetier
