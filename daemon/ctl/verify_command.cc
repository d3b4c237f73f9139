#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "base/text_size.h"
#include "daemon/ctl/command.h"
#include "daemon/ctl/interrupt.h"
#include "daemon/ctl/progress_line.h"
#include "daemon/ctl/text_table.h"
#include "tiers/store/verifier.h"

namespace moetier {
namespace {

struct VerifyArguments {
  std::string store;
  std::string model;
  bool repair = false;
  bool json = false;
};

std::string PlaceOf(const DamagedRecord& record) {
  if (!record.expert) return fmt::format("blk.{} router", Raw(record.layer));
  return fmt::format("blk.{} expert {}", Raw(record.layer), Raw(*record.expert));
}

std::string ReportJson(const VerifyReport& report) {
  nlohmann::json damaged = nlohmann::json::array();
  for (const DamagedRecord& record : report.damaged) {
    nlohmann::json entry{{"layer", Raw(record.layer)},
                         {"file", record.path},
                         {"offset", record.offset},
                         {"bytes", record.bytes},
                         {"problem", record.problem},
                         {"repaired", record.repaired},
                         {"repair_problem", record.repair_problem}};
    entry["expert"] = record.expert ? nlohmann::json(Raw(*record.expert)) : nlohmann::json();
    damaged.push_back(std::move(entry));
  }
  return nlohmann::json{{"directory", report.directory},
                        {"kind", StoreKindName(report.kind)},
                        {"fingerprint", FingerprintText(report.fingerprint)},
                        {"records", report.records},
                        {"bytes", report.bytes},
                        {"good", report.good()},
                        {"damaged", std::move(damaged)}}
             .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

std::string VerdictOf(const DamagedRecord& record, bool repair) {
  if (record.repaired) return "repaired";
  return repair ? "not repaired: " + record.repair_problem : "damaged";
}

// One line for records in a row that share their fate: a file that is gone is one fault.
bool SameFault(const DamagedRecord& a, const DamagedRecord& b) {
  return a.path == b.path && a.problem == b.problem && a.repaired == b.repaired &&
         a.repair_problem == b.repair_problem;
}

std::string FaultText(std::span<const DamagedRecord> records, bool repair) {
  const DamagedRecord& first = records.front();
  const std::string verdict = WithoutControls(VerdictOf(first, repair));
  const std::string path = WithoutControls(first.path);
  const std::string problem = WithoutControls(first.problem);
  if (records.size() == 1) {
    return fmt::format("{}: {} at {} of {}, {} bytes: {}\n", PlaceOf(first), verdict, first.offset,
                       path, first.bytes, problem);
  }
  return fmt::format("{} to {}, {} records: {} from {} on in {}: {}\n", PlaceOf(first),
                     PlaceOf(records.back()), records.size(), verdict, first.offset, path, problem);
}

std::string ReportText(const VerifyReport& report, bool repair) {
  std::string text;
  std::span<const DamagedRecord> left = report.damaged;
  while (!left.empty()) {
    const auto end = std::ranges::find_if_not(
        left, [&](const DamagedRecord& record) { return SameFault(left.front(), record); });
    const auto count = static_cast<size_t>(end - left.begin());
    text += FaultText(left.first(count), repair);
    left = left.subspan(count);
  }
  const auto repaired = std::ranges::count(report.damaged, true, &DamagedRecord::repaired);
  text += fmt::format("{}: {} records, {}, {} damaged, {} of them repaired: {}\n",
                      WithoutControls(report.directory), report.records,
                      FormatSize(Bytes(report.bytes)), report.damaged.size(), repaired,
                      report.good() ? "good" : "NOT good");
  if (!report.good() && !repair) {
    text += fmt::format(
        "run `moetierctl verify --repair {}` to make the damaged records again from the model\n",
        WithoutControls(report.directory));
  }
  if (repaired > 0) {
    text += "run `moetierctl reload` so that a running daemon lifts their quarantine\n";
  }
  return text;
}

ExitCode RunVerify(const VerifyArguments& arguments) {
  const VerifyOptions options{
      .repair = arguments.repair,
      .model_path = arguments.model.empty() ? "" : AbsolutePath(arguments.model)};
  Result<Interrupt> interrupt = Interrupt::Create();
  if (!interrupt) return ReportError(interrupt.error());
  const SteadyClock clock;
  Result<VerifyReport> report = Error{};
  {
    ProgressLine progress("verify", stderr, ProgressLine::StyleFor(stderr), clock);
    report = VerifyStore(AbsolutePath(arguments.store), options, HostFileSystem(),
                         [&](const VerifyProgress& state) {
                           progress.Update(Bytes(state.bytes_done), Bytes(state.bytes_total));
                           return !interrupt->requested();
                         });
  }
  if (!report) {
    const ExitCode code = ReportError(report.error());
    // A damaged index or a stale source is what was asked about; a folder without a store is not.
    const bool damaged =
        report.error().reason == Reason::kBadStore && report.error().code != ErrorCode::kNotFound;
    const bool wrong = damaged || report.error().code == ErrorCode::kDataLoss ||
                       report.error().reason == Reason::kStaleStore;
    return wrong ? ExitCode::kWrong : code;
  }
  return Print(arguments.json ? ReportJson(*report) : ReportText(*report, arguments.repair),
               report->good() ? ExitCode::kOk : ExitCode::kWrong);
}

}  // namespace

void AddVerifyCommand(CLI::App& app, ExitCode& exit_code) {
  CLI::App* const command = AddCommand(
      app, "verify", "Read every record of a store and compare its checksum. Needs no daemon.");
  const auto arguments = std::make_shared<VerifyArguments>();
  command->add_option("STORE", arguments->store, "The store's directory")->required();
  CLI::Option* const repair =
      command->add_flag("--repair", arguments->repair, "Make damaged records again from the model");
  command
      ->add_option("--model", arguments->model,
                   "The GGUF file, if it is no longer where it was imported from")
      ->needs(repair);
  AddJsonFlag(*command, arguments->json);
  command->callback([arguments, &exit_code] { exit_code = RunVerify(*arguments); });
}

}  // namespace moetier
