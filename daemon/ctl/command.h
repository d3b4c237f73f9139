#ifndef MOETIER_DAEMON_CTL_COMMAND_H_
#define MOETIER_DAEMON_CTL_COMMAND_H_

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "daemon/ctl/exit_code.h"

// What the subcommands share. Each lies in a file of its own and adds itself to the app; its
// callback runs after parsing and leaves the exit code. stdout has only the result, and with
// --json only JSON; everything else goes to stderr.

namespace moetier {

void AddDoctorCommand(CLI::App& app, ExitCode& exit_code);
void AddHeatCommands(CLI::App& app, ExitCode& exit_code);  // heat show, export, import
void AddImportCommand(CLI::App& app, ExitCode& exit_code);
void AddLoadCommands(CLI::App& app, ExitCode& exit_code);  // load, unload
void AddModelsCommand(CLI::App& app, ExitCode& exit_code);
void AddPinCommands(CLI::App& app, ExitCode& exit_code);  // pin, unpin
void AddReloadCommand(CLI::App& app, ExitCode& exit_code);
void AddReplayCommand(CLI::App& app, ExitCode& exit_code);
void AddShellCommand(CLI::App& app, ExitCode& exit_code);
void AddStatusCommand(CLI::App& app, ExitCode& exit_code);
void AddVerifyCommand(CLI::App& app, ExitCode& exit_code);
void AddYieldCommand(CLI::App& app, ExitCode& exit_code);

// A subcommand with the common footer on exit codes.
CLI::App* AddCommand(CLI::App& app, const std::string& name, const std::string& description);
// --socket, with the default that the daemon of the same user would bind.
void AddSocketOption(CLI::App& command, std::string& socket);
void AddJsonFlag(CLI::App& command, bool& json);

// Writes a result to stdout and gives `when_written`. kFailed, with a message, where it could not
// be written: a disk is full, stdout is closed. kUnread, quietly, when its reader is gone.
[[nodiscard]] ExitCode Print(std::string_view text, ExitCode when_written = ExitCode::kOk);

// No option or argument of the app's commands may be given as the empty text that an unset shell
// variable leaves. Called when all commands are there.
void RefuseEmptyValues(CLI::App& app);

// "moetierctl: MESSAGE" on stderr; gives the exit code that fits the error.
ExitCode ReportError(const Error& error);
ExitCode ExitCodeOf(const Error& error);

// The absolute form of a path that the user typed: the daemon has another working directory.
std::string AbsolutePath(const std::string& path);

// Where stores go unless the user says otherwise: what the daemon's own default would be.
std::string DefaultStoreRoot();
// The same of the daemon that the system's unit starts.
inline constexpr std::string_view kSystemStoreRoot = "/var/lib/moetierd/stores";

// Fingerprints as everywhere: 16 hexadecimal digits.
std::string FingerprintText(uint64_t fingerprint);

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_COMMAND_H_
