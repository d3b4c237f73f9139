#include <fmt/format.h>
#include <grpcpp/client_context.h>
#include <unistd.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "daemon/ctl/command.h"
#include "daemon/ctl/daemon_channel.h"
#include "daemon/ctl/proto_json.h"
#include "daemon/ctl/status_view.h"
#include "moetier/v1/operator.grpc.pb.h"

namespace moetier {
namespace {

struct StatusArguments {
  std::string socket;
  bool watch = false;
  double interval_seconds = 1;
  uint32_t count = 0;
  bool json = false;
};

ExitCode ShowOnce(const StatusArguments& arguments, v1::Operator::Stub& stub) {
  grpc::ClientContext context;
  v1::StatusReply reply;
  const grpc::Status status = stub.GetStatus(&context, {}, &reply);
  if (!status.ok()) return ReportError(CallError(status, "status"));
  return Print(arguments.json ? ProtoJson(reply) : RenderStatus(reply));
}

// Redraws on a terminal; elsewhere pages follow one another, with --json one line each.
ExitCode Watch(const StatusArguments& arguments, v1::Operator::Stub& stub) {
  v1::WatchStatusRequest request;
  request.set_interval_ms(static_cast<uint32_t>(std::lround(arguments.interval_seconds * 1000)));
  grpc::ClientContext context;
  const auto stream = stub.WatchStatus(&context, request);
  const SteadyClock clock;
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  std::optional<v1::StatusReply> before;
  TimePoint before_at;
  uint32_t shown = 0;
  for (v1::StatusReply now; stream->Read(&now);) {
    const TimePoint now_at = clock.Now();
    std::string page;
    if (arguments.json) {
      page = ProtoJson(now, JsonStyle::kOneLine);
    } else {
      page =
          RenderStatus(now, {.before = before ? &*before : nullptr, .length = now_at - before_at});
      // Escapes: cursor home, then erase what lay below the shorter page.
      page = terminal ? "\033[H\033[2J" + page : page + "\n";
    }
    if (const ExitCode shown_as = Print(page); shown_as != ExitCode::kOk) return shown_as;
    if (++shown == arguments.count) {
      context.TryCancel();
      while (stream->Read(&now)) continue;
      stream->Finish();  // CANCELLED, as asked
      return ExitCode::kOk;
    }
    before = std::move(now);
    before_at = now_at;
  }
  return ReportError(CallError(stream->Finish(), "status"));
}

ExitCode RunStatus(const StatusArguments& arguments) {
  const auto channel = ConnectToDaemon(arguments.socket);
  if (!channel) return ReportError(channel.error());
  const auto stub = v1::Operator::NewStub(*channel);
  return arguments.watch ? Watch(arguments, *stub) : ShowOnce(arguments, *stub);
}

}  // namespace

void AddStatusCommand(CLI::App& app, ExitCode& exit_code) {
  CLI::App* const command = AddCommand(
      app, "status", "Show pools, lanes, NVMe, sessions and fallbacks of the running daemon.");
  const auto arguments = std::make_shared<StatusArguments>();
  AddSocketOption(*command, arguments->socket);
  CLI::Option* const watch =
      command->add_flag("--watch,-w", arguments->watch, "Show it again and again, with rates");
  command->add_option("--interval", arguments->interval_seconds, "Seconds between two statuses")
      ->check(CLI::Range(0.1, 60.0))
      ->capture_default_str()
      ->needs(watch);
  command->add_option("--count", arguments->count, "Stop after this many; 0 means never")
      ->capture_default_str()
      ->needs(watch);
  AddJsonFlag(*command, arguments->json);
  command->callback([arguments, &exit_code] { exit_code = RunStatus(*arguments); });
}

}  // namespace moetier
