// moetierctl: imports and checks stores, shows and steers a running daemon.

#include <csignal>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>

#include "base/standard_descriptors.h"
#include "daemon/ctl/command.h"
#include "daemon/ctl/mistyped.h"

namespace {

// Help and version are results; every other end of the parser is 2.
moetier::ExitCode EndParse(const CLI::App& app, const CLI::ParseError& error) {
  const bool failed = error.get_exit_code() != 0;
  const std::optional<std::string> mistyped = failed ? moetier::MistypedText(app) : std::nullopt;
  if (mistyped) {
    std::cerr << "moetierctl: " << *mistyped << "\nRun with --help for more information.\n";
    return moetier::ExitCode::kUsage;
  }
  std::ostringstream result;
  const bool asked_for = app.exit(error, result, std::cerr) == 0;
  return asked_for ? moetier::Print(result.str()) : moetier::ExitCode::kUsage;
}

}  // namespace

int main(int argc, char** argv) {
  moetier::FillStandardDescriptors();
  // `moetierctl status | head` ends by a failing write, not by a signal.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("moetierctl: expert stores and the daemon moetierd", "moetierctl");
  app.set_version_flag("--version", MOETIER_VERSION);
  app.footer("\n" + std::string(moetier::kExitCodeHelp));
  app.require_subcommand(1);
  moetier::ExitCode exit_code = moetier::ExitCode::kOk;
  moetier::AddStatusCommand(app, exit_code);
  moetier::AddImportCommand(app, exit_code);
  moetier::AddShellCommand(app, exit_code);
  moetier::AddVerifyCommand(app, exit_code);
  moetier::AddModelsCommand(app, exit_code);
  moetier::AddLoadCommands(app, exit_code);
  moetier::AddPinCommands(app, exit_code);
  moetier::AddHeatCommands(app, exit_code);
  moetier::AddReloadCommand(app, exit_code);
  moetier::AddYieldCommand(app, exit_code);
  moetier::AddReplayCommand(app, exit_code);
  moetier::AddDoctorCommand(app, exit_code);
  moetier::RefuseEmptyValues(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return static_cast<int>(EndParse(app, error));
  }
  return static_cast<int>(exit_code);
}
