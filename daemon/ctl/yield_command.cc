// moetierctl yield: takes memory from a loaded model for a while.

#include <fmt/format.h>
#include <grpcpp/client_context.h>

#include <charconv>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
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

constexpr std::string_view kTimeForm =
    "a number and s, m or h, such as 90s, 10m or 2h, at most 366 days (8784h)";
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

// The model that is meant, of those that have memory in the pool.
Result<std::string> ChooseModel(const v1::PoolStatus& pool, const std::string& model) {
  std::set<std::string> models;
  for (const v1::SizeClassStatus& entry : pool.classes()) models.insert(entry.model_name());
  if (models.empty()) return Wrong(fmt::format("no model has memory in pool {}", pool.name()));
  if (models.contains(model)) return model;
  if (model.empty() && models.size() == 1) return *models.begin();
  const std::string names = fmt::format("{}", fmt::join(models, ", "));
  if (model.empty())
    return Wrong(fmt::format("several models are loaded: name one of {} with --model", names));
  return Wrong(fmt::format("model {} has no memory in pool {}; {} {}", model, pool.name(), names,
                           models.size() == 1 ? "has" : "have"));
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
  const Result<std::string> model = ChooseModel(*pool, arguments.model);
  if (!model) return ReportError(model.error());
  v1::SetBudgetRequest request;
  request.set_model(*model);
  request.set_pool(pool->index());
  request.set_less_bytes(bytes.count());
  request.set_for_seconds(static_cast<uint64_t>(time.count()));
  grpc::ClientContext context;
  v1::SetBudgetReply reply;
  const grpc::Status set = daemon->SetBudget(&context, request, &reply);
  if (!set.ok()) return ReportError(CallError(set, "yield of " + *model));
  return Print(arguments.json
                   ? ProtoJson(reply)
                   : fmt::format("{} has {} instead of {} in {} for {}\n", WithoutControls(*model),
                                 FormatSize(Bytes(reply.bytes())),
                                 FormatSize(Bytes(reply.original_bytes())),
                                 WithoutControls(arguments.pool), FormatDuration(time)));
}

ExitCode RunYield(const YieldArguments& arguments) {
  const std::optional<MemoryBudget> budget = ParseMemoryBudget(arguments.bytes);
  if (!budget || !std::holds_alternative<Bytes>(*budget)) {
    fmt::print(stderr, "moetierctl: --bytes {}: not a size above 0, such as 2GiB\n",
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
  command
      ->add_option("--pool", arguments->pool,
                   "Whose memory: ram0 or a device's name, as status lists them")
      ->capture_default_str();
  command
      ->add_option("--bytes", arguments->bytes,
                   "How much less than its own budget the model has, such as 2GiB; another yield "
                   "takes this one's place")
      ->required();
  command->add_option("--for", arguments->time, "How long: " + std::string(kTimeForm))->required();
  command->add_option("--model", arguments->model,
                      "The loaded model; needed when there are several");
  AddJsonFlag(*command, arguments->json);
  command->callback([arguments, &exit_code] { exit_code = RunYield(*arguments); });
}

}  // namespace moetier
