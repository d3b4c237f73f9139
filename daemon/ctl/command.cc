#include "daemon/ctl/command.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/unique_fd.h"
#include "config/config.h"
#include "daemon/ctl/text_table.h"

namespace moetier {

CLI::App* AddCommand(CLI::App& app, const std::string& name, const std::string& description) {
  CLI::App* const command = app.add_subcommand(name, description);
  command->footer("\n" + std::string(kExitCodeHelp));
  return command;
}

void AddSocketOption(CLI::App& command, std::string& socket) {
  socket = DefaultSocketPath(ProcessEnvironment());
  command.add_option("--socket", socket, "The daemon's Unix socket (or MOETIER_SOCKET)")
      ->capture_default_str();
}

void AddJsonFlag(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "JSON on stdout, and nothing else there");
}

ExitCode Print(std::string_view text, ExitCode when_written) {
  errno = 0;
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (written) return when_written;
  if (errno == EPIPE) return ExitCode::kUnread;
  return ReportError(ErrnoError(errno, "write standard output"));
}

void RefuseEmptyValues(CLI::App& app) {
  for (CLI::App* const command : app.get_subcommands({})) RefuseEmptyValues(*command);
  const CLI::Validator not_empty(
      [](std::string& text) {
        return text.empty() ? std::string("the value is empty; is a shell variable unset?")
                            : std::string();
      },
      "");
  for (CLI::Option* const option : app.get_options()) {
    if (option->get_type_size() > 0) option->check(not_empty);  // 0: a flag
  }
}

ExitCode ExitCodeOf(const Error& error) {
  // An answer of the daemon has a reason; a lost or missing connection has none.
  if (error.code == ErrorCode::kUnavailable && error.reason == Reason::kUnspecified) {
    return ExitCode::kUnreachable;
  }
  if (error.code == ErrorCode::kCancelled) return ExitCode::kInterrupted;
  return ExitCode::kFailed;
}

ExitCode ReportError(const Error& error) {
  fmt::print(stderr, "moetierctl: {}\n", WithoutControls(error.message));
  return ExitCodeOf(error);
}

std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

std::string DefaultStoreRoot() {
  DaemonConfig config;
  const Status status = ApplyEnvironment(ProcessEnvironment(), config);
  // A bad override concerns the daemon; the root is then the fixed one.
  return status.has_value() ? config.store_root : std::string(kSystemStoreRoot);
}

std::string FingerprintText(uint64_t fingerprint) { return fmt::format("{:016x}", fingerprint); }

}  // namespace moetier
