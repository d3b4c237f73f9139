#include <fmt/format.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "daemon/ctl/command.h"
#include "daemon/ctl/daemon_channel.h"
#include "daemon/ctl/proto_json.h"
#include "daemon/ctl/text_table.h"
#include "moetier/v1/operator.grpc.pb.h"

namespace moetier {
namespace {

struct ReloadArguments {
  std::string socket;
  bool json = false;
};

std::string ReplyText(const v1::ReloadReply& reply) {
  std::string text;
  for (const std::string& key : reply.changed()) text += "changed: " + WithoutControls(key) + "\n";
  for (const std::string& key : reply.needs_restart()) {
    // Models come and go while the daemon runs; of the rest it has made what it is.
    const bool models = key == "models.load";
    text += fmt::format("not applied: {}; restart moetierd{}\n", WithoutControls(key),
                        models ? ", or use `moetierctl load` and `unload`" : "");
  }
  return text.empty() ? "nothing differs\n" : text;
}

ExitCode RunReload(const ReloadArguments& arguments) {
  const auto channel = ConnectToDaemon(arguments.socket);
  if (!channel) return ReportError(channel.error());
  grpc::ClientContext context;
  v1::ReloadReply reply;
  const grpc::Status status = v1::Operator::NewStub(*channel)->Reload(&context, {}, &reply);
  if (!status.ok()) return ReportError(CallError(status, "reload"));
  return Print(arguments.json ? ProtoJson(reply) : ReplyText(reply));
}

}  // namespace

void AddReloadCommand(CLI::App& app, ExitCode& exit_code) {
  CLI::App* const command =
      AddCommand(app, "reload", "Have the daemon read its configuration again.");
  const auto arguments = std::make_shared<ReloadArguments>();
  AddSocketOption(*command, arguments->socket);
  AddJsonFlag(*command, arguments->json);
  command->callback([arguments, &exit_code] { exit_code = RunReload(*arguments); });
}

}  // namespace moetier
