#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/text_size.h"
#include "daemon/ctl/command.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/progress_line.h"
#include "daemon/ctl/text_table.h"
#include "tiers/store/importer.h"

namespace moetier {
namespace {

struct ImportArguments {
  std::string model;
  std::string store;
  std::string store_root;
  std::string layout = "rows16";
  std::string activation;
  bool in_place = false;
  bool skip_scan = false;
  bool json = false;
};

std::optional<kernels::Activation> ActivationOf(const std::string& name) {
  if (name == "swiglu") return kernels::Activation::kSwiGlu;
  if (name == "geglu") return kernels::Activation::kGeGlu;
  if (name == "swiglu_clamped") return kernels::Activation::kSwiGluClamped;
  return std::nullopt;
}

// Whether a daemon that is told nothing finds the store: it lists the root, not what lies deeper.
bool LiesBelow(const std::string& root, const std::string& directory) {
  std::filesystem::path store = directory;
  if (!store.has_filename()) store = store.parent_path();  // "DIR/"
  std::error_code error;  // a root that is not there is no parent of anything
  return std::filesystem::equivalent(store.parent_path(), root, error);
}

std::string WayToServe(const std::string& directory, const std::string& root) {
  if (LiesBelow(root, directory)) {
    const std::string whose =
        root == kSystemStoreRoot
            ? ""
            : fmt::format("; the system's daemon looks in {}", kSystemStoreRoot);
    return fmt::format(
        "moetierd finds it when an engine brings the model's file: it is below the default store "
        "root {}{}",
        root, whose);
  }
  return fmt::format(
      "moetierd does not find it by itself, since it is not directly below the default store root "
      "{}: name it under models.load (path: {}), or set store_root",
      root, directory);
}

std::string SummaryJson(const ImportSummary& summary) {
  return nlohmann::json{{"directory", summary.directory},
                        {"kind", StoreKindName(summary.kind)},
                        {"fingerprint", FingerprintText(summary.fingerprint)},
                        {"name", summary.name},
                        {"layers", summary.layers},
                        {"experts", summary.experts},
                        {"record_bytes", summary.record_bytes},
                        {"below_store_root", LiesBelow(DefaultStoreRoot(), summary.directory)},
                        {"already_complete", summary.already_complete},
                        {"experts_resumed", summary.experts_resumed},
                        {"warnings", summary.warnings},
                        {"warning_count", summary.warning_count}}
             .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

std::string SummaryText(const ImportSummary& summary) {
  std::string text = fmt::format("{} {}: {} experts in {} layers, {}, layout {}, fingerprint {}\n",
                                 summary.already_complete ? "already there:" : "imported",
                                 WithoutControls(summary.name), summary.experts, summary.layers,
                                 FormatSize(Bytes(summary.record_bytes)),
                                 StoreKindName(summary.kind), FingerprintText(summary.fingerprint));
  if (summary.experts_resumed > 0) {
    text += fmt::format("resumed: {} experts were there from an interrupted import\n",
                        summary.experts_resumed);
  }
  text += fmt::format("store: {}\n", WithoutControls(summary.directory));
  if (summary.warning_count > 0) {
    text += fmt::format("warning: {} experts have odd weights:\n", summary.warning_count);
    for (const std::string& fault : summary.warnings) text += "  " + WithoutControls(fault) + "\n";
  }
  return text + WithoutControls(WayToServe(summary.directory, DefaultStoreRoot())) + "\n";
}

ExitCode RunImport(const ImportArguments& arguments) {
  const ImportOptions options{
      .model_path = AbsolutePath(arguments.model),
      .store_directory = arguments.store.empty() ? "" : AbsolutePath(arguments.store),
      .store_root = AbsolutePath(arguments.store_root),
      .form = arguments.layout == "source" ? kernels::RecordForm::kSource
                                           : kernels::RecordForm::kRows16,
      .in_place = arguments.in_place,
      .activation = ActivationOf(arguments.activation),
      .scan_weights = !arguments.skip_scan};
  Result<Interrupt> interrupt = Interrupt::Create();
  if (!interrupt) return ReportError(interrupt.error());
  const SteadyClock clock;
  Result<ImportSummary> summary = Error{};
  {
    ProgressLine progress("import", stderr, ProgressLine::StyleFor(stderr), clock);
    summary = ImportModel(options, HostFileSystem(), [&](const ImportProgress& state) {
      progress.Update(Bytes(state.bytes_done), Bytes(state.bytes_total));
      return !interrupt->requested();
    });
  }
  if (!summary) return ReportError(summary.error());
  return Print(arguments.json ? SummaryJson(*summary) : SummaryText(*summary));
}

}  // namespace

void AddImportCommand(CLI::App& app, ExitCode& exit_code) {
  CLI::App* const command = AddCommand(
      app, "import",
      "Make an expert store of a GGUF model. Needs no daemon; an interrupted import resumes.");
  // The arguments live as long as the callback that reads them.
  const auto arguments = std::make_shared<ImportArguments>();
  arguments->store_root = DefaultStoreRoot();
  command->add_option("MODEL", arguments->model, "The GGUF file, or any of its shards")->required();
  CLI::Option* const store =
      command->add_option("--store", arguments->store, "The store's directory");
  command
      ->add_option("--store-root", arguments->store_root,
                   "Where a directory named after the model is made")
      ->capture_default_str()
      ->excludes(store);
  CLI::Option* const layout =
      command
          ->add_option("--layout", arguments->layout,
                       "rows16: the kernels' own; source: the file's bytes, for any weight type")
          ->check(CLI::IsMember({"rows16", "source"}))
          ->capture_default_str();
  command
      ->add_flag("--in-place", arguments->in_place,
                 "Serve experts from the GGUF file itself: checksums only, no second copy")
      ->excludes(layout);
  command
      ->add_option("--activation", arguments->activation,
                   "For architectures that are not known here")
      ->check(CLI::IsMember({"swiglu", "geglu", "swiglu_clamped"}));
  command->add_flag("--no-scan", arguments->skip_scan,
                    "Do not look for weights that are NaN or infinite");
  AddJsonFlag(*command, arguments->json);
  command->callback([arguments, &exit_code] { exit_code = RunImport(*arguments); });
}

}  // namespace moetier
