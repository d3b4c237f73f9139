#include <fmt/format.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "base/memory_budget.h"
#include "daemon/ctl/command.h"
#include "daemon/ctl/daemon_channel.h"
#include "daemon/ctl/progress_line.h"
#include "daemon/ctl/proto_json.h"
#include "daemon/ctl/text_table.h"
#include "moetier/v1/models.grpc.pb.h"
#include "tiers/store/expert_store.h"

namespace moetier {
namespace {

struct LoadArguments {
  std::string socket;
  std::string name;
  std::string store;
  std::string ram;
  bool json = false;
};

// A share is taken here of what the store's index says: the daemon is asked for bytes.
Result<Bytes> BudgetOf(const LoadArguments& arguments, const MemoryBudget& budget) {
  if (const Bytes* bytes = std::get_if<Bytes>(&budget)) return *bytes;
  ASSIGN_OR_RETURN(const std::unique_ptr<ExpertStore> store,
                   ExpertStore::Open(AbsolutePath(arguments.store)));
  return ResolveBudget(budget, store->geometry().TotalBytes());
}

ExitCode RunLoad(const LoadArguments& arguments) {
  v1::LoadModelRequest request;
  request.set_name(arguments.name);
  request.set_directory(AbsolutePath(arguments.store));
  if (!arguments.ram.empty()) {
    const std::optional<MemoryBudget> budget = ParseMemoryBudget(arguments.ram);
    if (!budget) {
      fmt::print(stderr, "moetierctl: --ram {}: not a memory budget; allowed: {}\n",
                 WithoutControls(arguments.ram), kMemoryBudgetForm);
      return ExitCode::kUsage;
    }
    const Result<Bytes> ram = BudgetOf(arguments, *budget);
    if (!ram) return ReportError(ram.error());
    request.set_ram_bytes(ram->count());
  }
  const auto channel = ConnectToDaemon(arguments.socket);
  if (!channel) return ReportError(channel.error());
  const auto stub = v1::Models::NewStub(*channel);
  grpc::ClientContext context;
  const auto stream = stub->Load(&context, request);
  const SteadyClock clock;
  v1::Progress last;
  {
    std::string step;
    std::optional<ProgressLine> line;
    for (v1::Progress progress; stream->Read(&progress);) {
      last = progress;
      if (progress.done()) continue;
      // From "preheat" on the model serves.
      const std::string now = progress.stage() == "preheat" ? "preheat" : "load";
      if (!line || now != step) line.emplace(now, stderr, ProgressLine::StyleFor(stderr), clock);
      step = now;
      line->Update(Bytes(progress.bytes_done()), Bytes(progress.bytes_total()));
    }
  }
  const grpc::Status status = stream->Finish();
  if (!status.ok()) return ReportError(CallError(status, "load " + arguments.name));
  return Print(arguments.json
                   ? ProtoJson(last.model())
                   : fmt::format("loaded {} from {}\n", WithoutControls(last.model().name()),
                                 WithoutControls(last.model().directory())));
}

ExitCode RunUnload(const LoadArguments& arguments) {
  const auto channel = ConnectToDaemon(arguments.socket);
  if (!channel) return ReportError(channel.error());
  v1::UnloadModelRequest request;
  request.set_name(arguments.name);
  grpc::ClientContext context;
  v1::UnloadModelReply reply;
  const grpc::Status status = v1::Models::NewStub(*channel)->Unload(&context, request, &reply);
  if (!status.ok()) return ReportError(CallError(status, "unload " + arguments.name));
  return Print(arguments.json ? ProtoJson(reply) : fmt::format("unloaded {}\n", arguments.name));
}

}  // namespace

void AddLoadCommands(CLI::App& app, ExitCode& exit_code) {
  const auto load_arguments = std::make_shared<LoadArguments>();
  CLI::App* const load = AddCommand(app, "load", "Have the daemon load a store as a model.");
  AddSocketOption(*load, load_arguments->socket);
  load->add_option("NAME", load_arguments->name, "How clients will call the model")->required();
  load->add_option("STORE", load_arguments->store,
                   "The store's directory, below one of the daemon's models.roots")
      ->required();
  load->add_option("--ram", load_arguments->ram,
                   "Memory for its experts, such as 12GiB or 25%; else as the configuration says");
  AddJsonFlag(*load, load_arguments->json);
  load->callback([load_arguments, &exit_code] { exit_code = RunLoad(*load_arguments); });

  const auto unload_arguments = std::make_shared<LoadArguments>();
  CLI::App* const unload =
      AddCommand(app, "unload", "Have the daemon answer a model's calls under way and drop it.");
  AddSocketOption(*unload, unload_arguments->socket);
  unload->add_option("NAME", unload_arguments->name, "The loaded model")->required();
  AddJsonFlag(*unload, unload_arguments->json);
  unload->callback([unload_arguments, &exit_code] { exit_code = RunUnload(*unload_arguments); });
}

}  // namespace moetier
