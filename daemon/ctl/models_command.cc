#include <fmt/format.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text_size.h"
#include "daemon/ctl/command.h"
#include "daemon/ctl/daemon_channel.h"
#include "daemon/ctl/proto_json.h"
#include "daemon/ctl/text_table.h"
#include "moetier/v1/models.grpc.pb.h"
#include "tiers/store/store_catalog.h"

namespace moetier {
namespace {

struct ModelsArguments {
  std::string socket;
  std::string stores;
  bool json = false;
};

std::string StateText(v1::ModelState state) {
  switch (state) {
    case v1::MODEL_STATE_LOADING:
      return "loading";
    case v1::MODEL_STATE_READY:
      return "ready";
    case v1::MODEL_STATE_UNLOADING:
      return "unloading";
    default:
      return "?";
  }
}

std::string LoadedText(const v1::ListModelsReply& reply) {
  TextTable table({{"NAME"},
                   {"STATE"},
                   {"ARCHITECTURE"},
                   {"LAYERS", Align::kRight},
                   {"EXPERTS", Align::kRight},
                   {"BYTES", Align::kRight},
                   {"FINGERPRINT"},
                   {"STORE"}});
  for (const v1::Model& model : reply.models()) {
    uint64_t experts = 0;
    uint64_t bytes = 0;
    for (const v1::LayerGeometry& layer : model.geometry().layers()) {
      experts += layer.experts();
      bytes += layer.experts() * layer.record_bytes();
    }
    table.AddRow({model.name(), StateText(model.state()), model.geometry().architecture(),
                  fmt::to_string(model.geometry().layers_size()), fmt::to_string(experts),
                  FormatSize(Bytes(bytes)), FingerprintText(model.fingerprint()),
                  model.directory()});
  }
  return table.empty() ? "no model is loaded\n" : table.Render();
}

ExitCode ShowLoaded(const ModelsArguments& arguments) {
  const auto channel = ConnectToDaemon(arguments.socket);
  if (!channel) return ReportError(channel.error());
  const auto stub = v1::Models::NewStub(*channel);
  grpc::ClientContext context;
  v1::ListModelsReply reply;
  const grpc::Status status = stub->List(&context, {}, &reply);
  if (!status.ok()) return ReportError(CallError(status, "list models"));
  return Print(arguments.json ? ProtoJson(reply) : LoadedText(reply));
}

std::string StoresText(const std::vector<StoreInfo>& stores) {
  TextTable table({{"NAME"},
                   {"STATE"},
                   {"KIND"},
                   {"ARCHITECTURE"},
                   {"LAYERS", Align::kRight},
                   {"EXPERTS", Align::kRight},
                   {"BYTES", Align::kRight},
                   {"ON DISK", Align::kRight},
                   {"FINGERPRINT"},
                   {"STORE"}});
  std::string problems;
  for (const StoreInfo& store : stores) {
    table.AddRow({store.name, std::string(StoreStateName(store.state)),
                  std::string(StoreKindName(store.kind)), store.architecture,
                  fmt::to_string(store.layers), fmt::to_string(store.experts),
                  FormatSize(Bytes(store.record_bytes)), FormatSize(Bytes(store.disk_bytes)),
                  FingerprintText(store.fingerprint), store.directory});
    if (!store.problem.empty()) {
      problems +=
          fmt::format("{}: {}\n", WithoutControls(store.directory), WithoutControls(store.problem));
    }
  }
  return (table.empty() ? "no store is there\n" : table.Render()) + problems;
}

std::string StoresJson(const std::vector<StoreInfo>& stores) {
  nlohmann::json list = nlohmann::json::array();
  for (const StoreInfo& store : stores) {
    list.push_back({{"directory", store.directory},
                    {"state", StoreStateName(store.state)},
                    {"problem", store.problem},
                    {"name", store.name},
                    {"architecture", store.architecture},
                    {"kind", StoreKindName(store.kind)},
                    {"fingerprint", FingerprintText(store.fingerprint)},
                    {"layers", store.layers},
                    {"experts", store.experts},
                    {"record_bytes", store.record_bytes},
                    {"disk_bytes", store.disk_bytes},
                    {"source_paths", store.source_paths}});
  }
  return nlohmann::json{{"stores", std::move(list)}}.dump(
             2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

// Damage that opening a store shows is an answer about it: exit 1.
ExitCode ShowStores(const ModelsArguments& arguments) {
  const auto stores = ListStores(AbsolutePath(arguments.stores));
  if (!stores) return ReportError(stores.error());
  const bool damaged = std::ranges::count(*stores, StoreState::kDamaged, &StoreInfo::state) > 0;
  return Print(arguments.json ? StoresJson(*stores) : StoresText(*stores),
               damaged ? ExitCode::kWrong : ExitCode::kOk);
}

}  // namespace

void AddModelsCommand(CLI::App& app, ExitCode& exit_code) {
  CLI::App* const command =
      AddCommand(app, "models", "Show the daemon's loaded models, or with --stores those on disk.");
  const auto arguments = std::make_shared<ModelsArguments>();
  AddSocketOption(*command, arguments->socket);
  command->add_option("--stores", arguments->stores,
                      "Show the stores in this directory instead (or the one store that it is); "
                      "needs no daemon");
  AddJsonFlag(*command, arguments->json);
  command->callback([arguments, &exit_code] {
    exit_code = arguments->stores.empty() ? ShowLoaded(*arguments) : ShowStores(*arguments);
  });
}

}  // namespace moetier
