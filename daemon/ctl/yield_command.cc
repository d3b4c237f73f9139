// moetierctl yield: takes memory from a loaded model for a while.

#include <fmt/format.h>
#include <grpcpp/client_context.h>

#include <charconv>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "base/memory_budget.h"
#include "base/text_size.h"
#include "daemon/ctl/command.h"
#include "daemon/ctl/daemon_channel.h"
#include "daemon/ctl/progress_line.h"
#include "daemon/ctl/proto_json.h"
#include "daemon/ctl/text_table.h"
#include "moetier/v1/operator.grpc.pb.h"

namespace moetier {
namespace {

struct YieldArguments {
  std::string socket;
  std::string pool = "ram0";
  std::string bytes;
  std::string time;
  std::string model;
  bool json = false;
};

constexpr std::string_view kTimeForm = "a number and s, m or h, such as 90s, 10m or 2h";
constexpr uint64_t kMostSeconds = 366 * 24 * 3600;

std::optional<std::chrono::seconds> ParseTime(std::string_view text) {
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || stop + 1 != text.data() + text.size()) return std::nullopt;
  const uint64_t unit = *stop == 's' ? 1 : *stop == 'm' ? 60 : *stop == 'h' ? 3600 : 0;
  if (unit == 0 || value == 0 || value > kMostSeconds / unit) return std::nullopt;
  return std::chrono::seconds(value * unit);
}

Error Wrong(std::string message) {
  return Error{ErrorCode::kInvalidArgument, Reason::kUnspecified, std::move(message)};
}

// A model's share of the pool.
struct Share {
  std::string model;
  Bytes bytes;
};

Result<std::vector<Share>> SharesOf(const v1::PoolStatus& pool) {
  std::vector<Share> shares;
  for (const v1::SizeClassStatus& entry : pool.classes()) {
    if (shares.empty() || shares.back().model != entry.model_name()) {
      shares.push_back({entry.model_name(), Bytes()});
    }
    shares.back().bytes += Bytes(entry.slot_bytes()) * entry.slots();
  }
  if (shares.empty()) return Wrong("no model has memory in the pool");
  return shares;
}

Result<Share> ChooseShare(const v1::PoolStatus& pool, const std::string& model) {
  ASSIGN_OR_RETURN(const std::vector<Share> shares, SharesOf(pool));
  if (model.empty() && shares.size() == 1) return shares.front();
  std::string names;
  for (const Share& share : shares) {
    if (share.model == model) return share;
    names += (names.empty() ? "" : ", ") + share.model;
  }
  if (model.empty())
    return Wrong(fmt::format("several models are loaded: name one of {} with --model", names));
  return Wrong(fmt::format("model {} has no memory in pool {}; {} {}", model, pool.name(), names,
                           shares.size() == 1 ? "has" : "have"));
}

Result<v1::PoolStatus> FindPool(v1::Operator::Stub& daemon, const std::string& name) {
  grpc::ClientContext context;
  v1::StatusReply status;
  const grpc::Status got = daemon.GetStatus(&context, {}, &status);
  if (!got.ok()) return CallError(got, "status");
  std::string names;
  for (const v1::PoolStatus& pool : status.pools()) {
    if (pool.name() == name) return pool;
    names += (names.empty() ? "" : ", ") + pool.name();
  }
  return Wrong(fmt::format("there is no pool {}; there is {}", name, names));
}

ExitCode Yield(const YieldArguments& arguments, Bytes bytes, std::chrono::seconds time) {
  const auto channel = ConnectToDaemon(arguments.socket);
  if (!channel) return ReportError(channel.error());
  const auto daemon = v1::Operator::NewStub(*channel);
  const Result<v1::PoolStatus> pool = FindPool(*daemon, arguments.pool);
  if (!pool) return ReportError(pool.error());
  const Result<Share> share = ChooseShare(*pool, arguments.model);
  if (!share) return ReportError(share.error());
  if (bytes >= share->bytes) {
    return ReportError(Wrong(
        fmt::format("model {} has {} in pool {}, less than {} and what calls need", share->model,
                    FormatSize(share->bytes), arguments.pool, FormatSize(bytes))));
  }
  v1::SetBudgetRequest request;
  request.set_model(share->model);
  request.set_pool(pool->index());
  request.set_bytes((share->bytes - bytes).count());
  request.set_for_seconds(static_cast<uint64_t>(time.count()));
  grpc::ClientContext context;
  v1::SetBudgetReply reply;
  const grpc::Status set = daemon->SetBudget(&context, request, &reply);
  if (!set.ok()) return ReportError(CallError(set, "yield of " + share->model));
  return Print(arguments.json
                   ? ProtoJson(reply)
                   : fmt::format("{} has {} instead of {} in {} for {}\n",
                                 WithoutControls(share->model), FormatSize(Bytes(reply.bytes())),
                                 FormatSize(share->bytes), WithoutControls(arguments.pool),
                                 FormatDuration(time)));
}

ExitCode RunYield(const YieldArguments& arguments) {
  const std::optional<MemoryBudget> budget = ParseMemoryBudget(arguments.bytes);
  if (!budget || !std::holds_alternative<Bytes>(*budget)) {
    fmt::print(stderr, "moetierctl: --bytes {}: not a size such as 2GiB\n",
               WithoutControls(arguments.bytes));
    return ExitCode::kUsage;
  }
  const std::optional<std::chrono::seconds> time = ParseTime(arguments.time);
  if (!time) {
    fmt::print(stderr, "moetierctl: --for {}: not {}\n", WithoutControls(arguments.time),
               kTimeForm);
    return ExitCode::kUsage;
  }
  return Yield(arguments, std::get<Bytes>(*budget), *time);
}

}  // namespace

void AddYieldCommand(CLI::App& app, ExitCode& exit_code) {
  const auto arguments = std::make_shared<YieldArguments>();
  CLI::App* const command = AddCommand(
      app, "yield", "Have a model give memory back for a while; the daemon then takes it again.");
  AddSocketOption(*command, arguments->socket);
  command->add_option("--pool", arguments->pool, "Whose memory")->capture_default_str();
  command->add_option("--bytes", arguments->bytes, "How much less the model has, such as 2GiB")
      ->required();
  command->add_option("--for", arguments->time, "How long: " + std::string(kTimeForm))->required();
  command->add_option("--model", arguments->model,
                      "The loaded model; needed when there are several");
  AddJsonFlag(*command, arguments->json);
  command->callback([arguments, &exit_code] { exit_code = RunYield(*arguments); });
}

}  // namespace moetier
