#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "base/file_io.h"
#include "config/config.h"
#include "config/config_fields.h"

namespace moetier {
namespace {

// Runs `read(text, place)` on the variable if it is set.
template <typename ReadText>
Status Override(const EnvironmentLookup& environment, const std::string& name, ReadText read) {
  const std::optional<std::string> text = environment(name);
  if (!text) return Ok();
  return read(*text, ConfigPlace{.file = {}, .line = 0, .key = name});
}

// Stores what `parse` makes of the variable.
template <typename T, typename Parse>
Status OverrideWith(const EnvironmentLookup& environment, const std::string& name, T& target,
                    Parse parse) {
  return Override(environment, name,
                  [&](std::string_view text, const ConfigPlace& place) -> Status {
                    ASSIGN_OR_RETURN(target, parse(text, place));
                    return Ok();
                  });
}

template <typename E>
Status OverrideChoice(const EnvironmentLookup& environment, const std::string& name, E& target,
                      Choices<E> choices) {
  return OverrideWith(environment, name, target,
                      [choices](std::string_view text, const ConfigPlace& place) {
                        return ParseChoice<E>(text, choices, place);
                      });
}

// systemd may name several directories, separated by colons; the first is the daemon's.
std::string FirstOf(const std::string& list) { return list.substr(0, list.find(':')); }

std::string RuntimeDirectory(const EnvironmentLookup& environment) {
  if (const auto systemd = environment("RUNTIME_DIRECTORY")) return FirstOf(*systemd);
  if (const auto user = environment("XDG_RUNTIME_DIR")) return *user + "/moetierd";
  return "/run/moetierd";
}

std::string StateDirectory(const EnvironmentLookup& environment) {
  if (const auto systemd = environment("STATE_DIRECTORY")) return FirstOf(*systemd);
  // A user's session has a runtime directory; root and system services have none.
  if (environment("XDG_RUNTIME_DIR")) {
    if (const auto state = environment("XDG_STATE_HOME")) return *state + "/moetierd";
    if (const auto home = environment("HOME")) return *home + "/.local/state/moetierd";
  }
  return "/var/lib/moetierd";
}

}  // namespace

EnvironmentLookup ProcessEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return std::string(value);
  };
}

std::string DefaultSocketPath(const EnvironmentLookup& environment) {
  if (const auto named = environment("MOETIER_SOCKET")) return *named;
  return RuntimeDirectory(environment) + "/moetierd.sock";
}

Status ApplyEnvironment(const EnvironmentLookup& environment, DaemonConfig& config) {
  RETURN_IF_ERROR(
      OverrideWith(environment, "MOETIER_SOCKET", config.socket.path, ParseAbsolutePath));
  RETURN_IF_ERROR(OverrideWith(environment, "MOETIER_STATE_DIRECTORY", config.state_directory,
                               ParseAbsolutePath));
  RETURN_IF_ERROR(
      OverrideWith(environment, "MOETIER_STORE_ROOT", config.store_root, ParseAbsolutePath));
  RETURN_IF_ERROR(OverrideChoice(environment, "MOETIER_INSTRUCTION_SET", config.cpu.instruction_set,
                                 InstructionSetChoices()));
  RETURN_IF_ERROR(
      OverrideWith(environment, "MOETIER_CPU_WORKERS", config.cpu.workers, ParseWorkers));
  RETURN_IF_ERROR(
      OverrideChoice(environment, "MOETIER_NVME_ENGINE", config.nvme.engine, ReadEngineChoices()));
  RETURN_IF_ERROR(
      OverrideChoice(environment, "MOETIER_NVME_MODE", config.nvme.mode, ReadModeChoices()));
  RETURN_IF_ERROR(
      OverrideChoice(environment, "MOETIER_LOG_LEVEL", config.log_level, LogLevelChoices()));

  if (config.socket.path.empty()) config.socket.path = DefaultSocketPath(environment);
  if (config.state_directory.empty()) config.state_directory = StateDirectory(environment);
  if (config.store_root.empty()) config.store_root = config.state_directory + "/stores";
  for (ModelConfig& model : config.models) {
    if (model.path.front() != '/') model.path = config.store_root + "/" + model.path;
  }
  return Ok();
}

Result<DaemonConfig> LoadConfig(const std::string& path) {
  Result<std::string> text = ReadTextFile(path, kMaxConfigBytes);
  if (!text.has_value()) {
    Error error = std::move(text).error();
    if (error.code == ErrorCode::kNotFound) {
      error.message +=
          "; install moetierd, which brings /etc/moetierd/moetierd.yaml, or copy "
          "config/moetierd.yaml from its source and name the copy with --config";
    }
    return error;
  }
  ASSIGN_OR_RETURN(DaemonConfig config, ParseConfig(*text, path));
  RETURN_IF_ERROR(ApplyEnvironment(ProcessEnvironment(), config));
  return config;
}

}  // namespace moetier
