#include <fmt/format.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/ctl/command.h"
#include "daemon/ctl/daemon_channel.h"
#include "daemon/ctl/proto_json.h"
#include "moetier/v1/operator.grpc.pb.h"

namespace moetier {
namespace {

struct PinArguments {
  std::string socket;
  std::string model;
  uint32_t layer = 0;
  std::vector<uint32_t> experts;
  bool json = false;
};

enum class PinAction : uint8_t { kPin, kUnpin };

std::string ReplyText(PinAction action, const PinArguments& arguments, uint32_t changed) {
  const bool pin = action == PinAction::kPin;
  if (changed > 0) {
    return fmt::format("{}: {} experts of blk.{}\n", pin ? "pinned" : "unpinned", changed,
                       arguments.layer);
  }
  return fmt::format("nothing to do: {} of blk.{} {}\n",
                     arguments.experts.empty() ? "the experts" : "these experts", arguments.layer,
                     pin ? "are pinned already" : "are not pinned");
}

ExitCode RunPin(const PinArguments& arguments, PinAction action) {
  const auto channel = ConnectToDaemon(arguments.socket);
  if (!channel) return ReportError(channel.error());
  v1::PinRequest request;
  request.set_model(arguments.model);
  request.set_layer(arguments.layer);
  for (const uint32_t expert : arguments.experts) request.add_experts(expert);
  const auto stub = v1::Operator::NewStub(*channel);
  grpc::ClientContext context;
  v1::PinReply reply;
  const bool pin = action == PinAction::kPin;
  const grpc::Status status =
      pin ? stub->Pin(&context, request, &reply) : stub->Unpin(&context, request, &reply);
  if (!status.ok()) return ReportError(CallError(status, pin ? "pin" : "unpin"));
  return Print(arguments.json ? ProtoJson(reply) : ReplyText(action, arguments, reply.changed()));
}

void AddPinCommand(CLI::App& app, ExitCode& exit_code, const std::string& name,
                   const std::string& description, PinAction action) {
  const auto arguments = std::make_shared<PinArguments>();
  CLI::App* const command = AddCommand(app, name, description);
  AddSocketOption(*command, arguments->socket);
  command->add_option("MODEL", arguments->model, "The loaded model")->required();
  command->add_option("LAYER", arguments->layer, "Block number N of blk.N")->required();
  command->add_option("EXPERT", arguments->experts, "Expert numbers; none means all of the layer");
  AddJsonFlag(*command, arguments->json);
  command->callback([arguments, action, &exit_code] { exit_code = RunPin(*arguments, action); });
}

}  // namespace

void AddPinCommands(CLI::App& app, ExitCode& exit_code) {
  AddPinCommand(app, exit_code, "pin", "Load experts and keep them in memory.", PinAction::kPin);
  AddPinCommand(app, exit_code, "unpin", "Let pinned experts be evicted again.", PinAction::kUnpin);
}

}  // namespace moetier
