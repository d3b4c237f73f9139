#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "daemon/ctl/command.h"
#include "daemon/ctl/daemon_channel.h"
#include "daemon/ctl/golden_rows.h"
#include "daemon/ctl/reference_model.h"
#include "daemon/ctl/replay_check.h"
#include "daemon/ctl/replay_lane.h"
#include "daemon/ctl/replay_plan.h"
#include "daemon/ctl/replay_session.h"
#include "daemon/ctl/text_table.h"

namespace moetier {
namespace {

struct ReplayArguments {
  std::string golden;
  std::string socket;
  std::string model;
  std::string gguf;
  std::string lane;  // empty: as the daemon plans
  uint32_t rows = 1;
  uint32_t sessions = 1;
  uint32_t repeat = 1;
  bool fast_lane = false;
  bool json = false;
};

struct ReplayReport {
  std::string model;
  std::string gguf;
  ReplayCounts counts;
  uint64_t hash = 0;
  uint64_t reference_hash = 0;
  double relative_l2 = 0;  // against the float64 results
  double seconds = 0;      // from the first call sent to the last answered, all repeats
  [[nodiscard]] bool good() const { return counts.good() && hash == reference_hash; }
};

// A gRPC session, which knows the model, and the lane that the calls take instead, if asked.
struct Client {
  std::unique_ptr<ReplaySession> session;
  std::unique_ptr<ReplayLane> lane;
};
using Sessions = std::vector<Client>;

Result<Sessions> AttachAll(const ReplayArguments& arguments) {
  ASSIGN_OR_RETURN(const auto channel, ConnectToDaemon(arguments.socket));
  Sessions sessions;
  for (uint32_t i = 0; i < arguments.sessions; ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<ReplaySession> session,
                     ReplaySession::Attach(channel, arguments.model));
    Client& client = sessions.emplace_back();
    client.session = std::move(session);
    if (!arguments.lane.empty()) RETURN_IF_ERROR(client.session->ForceLane(arguments.lane));
    if (!arguments.fast_lane) continue;
    ASSIGN_OR_RETURN(client.lane, ReplayLane::Attach(arguments.socket, arguments.model));
  }
  return sessions;
}

// The daemon must serve the model that the reference is computed from.
Status CheckSameModel(const v1::Model& served, const ModelGeometry& reference) {
  const auto& layers = served.geometry().layers();
  bool same = served.geometry().hidden() == reference.hidden &&
              static_cast<size_t>(layers.size()) == reference.layers.size();
  for (int i = 0; same && i < layers.size(); ++i) {
    const LayerGeometry& layer = reference.layers[static_cast<size_t>(i)];
    same = layers[i].layer() == Raw(layer.layer) && layers[i].experts() == layer.experts &&
           layers[i].ffn() == layer.shape.ffn;
  }
  if (same) return Ok();
  return Error{ErrorCode::kInvalidArgument, Reason::kUnspecified,
               fmt::format("the daemon's model {} and the reference's GGUF have other layers or "
                           "sizes; give --gguf the file that the store was imported from",
                           served.name())};
}

// One pass over all rows, each session on a thread of its own.
Status RunOnce(const GoldenRows& rows, const std::vector<std::vector<ReplayCall>>& plan,
               const Sessions& sessions, ReplayCheck& check) {
  std::vector<std::optional<Error>> errors(sessions.size());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < sessions.size(); ++i) {
      threads.emplace_back([&, i] {
        std::vector<uint32_t> blocks;
        for (const auto& layer : sessions[i].session->grant().model().geometry().layers()) {
          blocks.push_back(layer.layer());
        }
        const auto take = [&](const ReplayCall& call, const v1::LayerReply& reply) {
          check.Take(call, blocks[call.layer], reply);
        };
        const Status status = sessions[i].lane != nullptr
                                  ? sessions[i].lane->Run(rows, blocks, plan[i], take)
                                  : sessions[i].session->Run(rows, plan[i], take);
        if (!status) errors[i] = status.error();
      });
    }
  }
  for (std::optional<Error>& error : errors) {
    if (error) return std::move(*error);
  }
  return Ok();
}

Result<ReplayReport> Replay(const ReplayArguments& arguments) {
  ASSIGN_OR_RETURN(const GoldenRows rows, ReadGoldenRows(arguments.golden));
  ASSIGN_OR_RETURN(const Sessions sessions, AttachAll(arguments));
  const v1::Grant& grant = sessions.front().session->grant();
  ReplayReport report{.model = grant.model().name(), .gguf = arguments.gguf, .counts = {}};
  if (report.gguf.empty()) {
    if (grant.model().source_paths().empty()) {
      return Error{ErrorCode::kInvalidArgument, Reason::kUnspecified,
                   "the daemon does not say which GGUF the model was made from; give --gguf"};
    }
    report.gguf = grant.model().source_paths(0);
  }
  if (arguments.rows > grant.limits().max_rows()) {
    return Error{ErrorCode::kInvalidArgument, Reason::kBadRows,
                 fmt::format("{} rows a call; the daemon takes at most {}", arguments.rows,
                             grant.limits().max_rows())};
  }
  ASSIGN_OR_RETURN(const ReferenceModel reference, ReferenceModel::Open(report.gguf));
  RETURN_IF_ERROR(reference.CheckFits(rows));
  RETURN_IF_ERROR(CheckSameModel(grant.model(), reference.geometry()));
  ASSIGN_OR_RETURN(const OutputGrid expected, reference.Compute(rows));

  const auto plan = PlanReplay({.tokens = rows.tokens,
                                .layers = rows.layers,
                                .rows_per_call = arguments.rows,
                                .sessions = arguments.sessions});
  const SteadyClock clock;
  ReplayCheck check(rows, expected);
  const TimePoint begin = clock.Now();
  for (uint32_t i = 0; i < arguments.repeat; ++i) {
    RETURN_IF_ERROR(RunOnce(rows, plan, sessions, check));
  }
  report.seconds = std::chrono::duration<double>(clock.Now() - begin).count();
  report.counts = check.counts();
  report.hash = check.output().Hash();
  report.reference_hash = expected.Hash();
  report.relative_l2 = RelativeL2(check.output().values(), rows.output);
  return report;
}

double PerSecond(uint64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

// Null for a wrong output: no speed is claimed for it.
nlohmann::json Speed(const ReplayReport& report) {
  if (!report.good()) return nullptr;
  return PerSecond(report.counts.calls, report.seconds);
}

std::string ReportJson(const ReplayArguments& arguments, const ReplayReport& report) {
  const ReplayCounts& counts = report.counts;
  return nlohmann::json{{"model", report.model},
                        {"gguf", report.gguf},
                        {"rows_per_call", arguments.rows},
                        {"sessions", arguments.sessions},
                        {"transport", arguments.fast_lane ? "fastlane" : "grpc"},
                        {"repeat", arguments.repeat},
                        {"calls", counts.calls},
                        {"rows", counts.rows},
                        {"faults", counts.faults},
                        {"differing_rows", counts.differing_rows},
                        {"masked_picks", counts.masked_picks},
                        {"first_problem", counts.first_problem},
                        {"hash", FingerprintText(report.hash)},
                        {"reference_hash", FingerprintText(report.reference_hash)},
                        {"relative_l2", report.relative_l2},
                        {"seconds", report.seconds},
                        {"calls_per_second", Speed(report)},
                        {"hits", counts.hits},
                        {"in_flight", counts.in_flight},
                        {"misses", counts.misses},
                        {"good", report.good()}}
             .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

std::string ReportText(const ReplayArguments& arguments, const ReplayReport& report) {
  const ReplayCounts& counts = report.counts;
  const uint64_t accesses = counts.hits + counts.in_flight + counts.misses;
  std::string text =
      fmt::format("replayed {} calls of up to {} rows over {} {} sessions on model {}\n",
                  counts.calls, arguments.rows, arguments.sessions,
                  arguments.fast_lane ? "fast-lane" : "gRPC", WithoutControls(report.model));
  text += fmt::format("reference: scalar, from {}\n", WithoutControls(report.gguf));
  text += fmt::format("rows whose bits differ: {} of {}; calls that failed: {}\n",
                      counts.differing_rows, counts.rows, counts.faults);
  text += fmt::format("hash of all output bits: {} (reference {})\n", FingerprintText(report.hash),
                      FingerprintText(report.reference_hash));
  text += fmt::format("error against float64: relative L2 {:.3g}\n", report.relative_l2);
  text += report.good() ? fmt::format("speed: {:.0f} layer calls/s, {:.0f} rows/s\n",
                                      PerSecond(counts.calls, report.seconds),
                                      PerSecond(counts.rows, report.seconds))
                        : "speed: none is claimed for a wrong output\n";
  const double rate =
      accesses == 0 ? 0 : 100.0 * static_cast<double>(counts.hits) / static_cast<double>(accesses);
  text += fmt::format("experts: {} hits, {} in flight, {} misses ({:.1f} % hits)\n", counts.hits,
                      counts.in_flight, counts.misses, rate);
  if (!counts.first_problem.empty()) {
    text += fmt::format("first problem: {}\n", counts.first_problem);
  }
  return text + (report.good() ? "every bit equals the reference\n" : "WRONG\n");
}

ExitCode RunReplay(const ReplayArguments& arguments) {
  const Result<ReplayReport> report = Replay(arguments);
  if (!report) return ReportError(report.error());
  return Print(arguments.json ? ReportJson(arguments, *report) : ReportText(arguments, *report),
               report->good() ? ExitCode::kOk : ExitCode::kWrong);
}

}  // namespace

void AddReplayCommand(CLI::App& app, ExitCode& exit_code) {
  CLI::App* const command =
      AddCommand(app, "replay",
                 "Send recorded layer inputs through the daemon and compare every output bit with "
                 "a reference computed here, from the model file.");
  const auto arguments = std::make_shared<ReplayArguments>();
  command
      ->add_option("--golden", arguments->golden,
                   "Directory with hidden.npy, experts.npy, weights.npy and output.npy")
      ->required();
  AddSocketOption(*command, arguments->socket);
  command->add_option("--model", arguments->model,
                      "The loaded model; not needed when there is only one");
  command->add_option("--gguf", arguments->gguf,
                      "The model file; else the one that the daemon names as the store's source");
  command->add_option("--lane", arguments->lane,
                      "Have all experts computed by this lane, as status names them; else as the "
                      "daemon plans");
  command->add_option("--rows", arguments->rows, "Rows in one call")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--sessions", arguments->sessions, "Sessions at once")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--repeat", arguments->repeat, "Times to send all rows")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command
      ->add_flag("--fastlane", arguments->fast_lane,
                 "Send the calls through shared memory instead of gRPC")
      ->excludes("--lane");
  AddJsonFlag(*command, arguments->json);
  command->callback([arguments, &exit_code] { exit_code = RunReplay(*arguments); });
}

}  // namespace moetier
