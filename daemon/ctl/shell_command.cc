#include <fmt/format.h>
#include <sys/stat.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text_size.h"
#include "daemon/ctl/command.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/progress_line.h"
#include "daemon/ctl/text_table.h"
#include "tiers/store/shell_writer.h"

namespace moetier {
namespace {

constexpr uint64_t kStatBlockBytes = 512;  // the unit of st_blocks on Linux, whatever the disk's

struct ShellArguments {
  std::string model;
  std::string output;
  bool force = false;
  bool json = false;
};

uint64_t DiskBytes(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return 0;
  return static_cast<uint64_t>(info.st_blocks) * kStatBlockBytes;
}

std::string SummaryJson(const std::string& path, const ShellSummary& summary) {
  return nlohmann::json{{"path", path},
                        {"name", summary.name},
                        {"fingerprint", FingerprintText(summary.fingerprint)},
                        {"hole_tensors", summary.hole_tensors},
                        {"source_bytes", summary.source_bytes},
                        {"file_bytes", summary.file_bytes},
                        {"copied_bytes", summary.copied_bytes},
                        {"disk_bytes", DiskBytes(path)}}
             .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

std::string SummaryText(const std::string& path, const ShellSummary& summary) {
  return fmt::format(
      "shell of {}: {} on disk of {} declared (the model has {}), {} tensors of experts left out, "
      "fingerprint {}\n"
      "shell: {}\n"
      "Start an engine on it with the plug-in libggml-moetier.so and `-ot exps=MOETIER`, which an "
      "engine without the plug-in refuses.\n",
      WithoutControls(summary.name), FormatSize(Bytes(DiskBytes(path))),
      FormatSize(Bytes(summary.file_bytes)), FormatSize(Bytes(summary.source_bytes)),
      summary.hole_tensors, FingerprintText(summary.fingerprint), WithoutControls(path));
}

ExitCode RunShell(const ShellArguments& arguments) {
  const ShellOptions options{.model_path = AbsolutePath(arguments.model),
                             .output_path = AbsolutePath(arguments.output),
                             .overwrite = arguments.force ? Overwrite::kYes : Overwrite::kNo};
  Result<Interrupt> interrupt = Interrupt::Create();
  if (!interrupt) return ReportError(interrupt.error());
  const SteadyClock clock;
  Result<ShellSummary> summary = Error{};
  {
    ProgressLine progress("shell", stderr, ProgressLine::StyleFor(stderr), clock);
    summary = WriteShell(options, HostFileSystem(), [&](const ShellProgress& state) {
      progress.Update(Bytes(state.bytes_done), Bytes(state.bytes_total));
      return !interrupt->requested();
    });
  }
  if (!summary) return ReportError(summary.error());
  return Print(arguments.json ? SummaryJson(options.output_path, *summary)
                              : SummaryText(options.output_path, *summary));
}

}  // namespace

void AddShellCommand(CLI::App& app, ExitCode& exit_code) {
  CLI::App* const command = AddCommand(
      app, "shell",
      "Write a model file without its experts for an engine that has moetierd compute them. Needs "
      "no daemon.");
  const auto arguments = std::make_shared<ShellArguments>();
  command->add_option("MODEL", arguments->model, "The GGUF file, or any of its shards")->required();
  command->add_option("OUT", arguments->output, "The shell to write; one file, also of shards")
      ->required();
  command->add_flag("--force", arguments->force, "Replace OUT if it exists");
  AddJsonFlag(*command, arguments->json);
  command->callback([arguments, &exit_code] { exit_code = RunShell(*arguments); });
}

}  // namespace moetier
