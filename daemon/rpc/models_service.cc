#include "daemon/rpc/models_service.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/model_name.h"
#include "daemon/rpc/model_messages.h"
#include "daemon/rpc/unary_reply.h"
#include "daemon/transport/model_choice.h"

namespace moetier {
namespace {

bool IsBelow(const std::filesystem::path& path, const std::filesystem::path& root) {
  const auto [in_root, in_path] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return in_root == root.end();
}

v1::Progress Finished(const std::string& stage) {
  v1::Progress progress;
  progress.set_stage(stage);
  progress.set_done(true);
  return progress;
}

}  // namespace

Result<std::string> ResolveUnderRoots(const std::string& directory,
                                      std::span<const std::string> roots) {
  std::error_code error;
  const std::filesystem::path given(directory);
  const std::filesystem::path path = std::filesystem::canonical(given, error);
  const bool absolute = given.is_absolute();
  for (const std::string& root : roots) {
    std::error_code root_error;
    const std::filesystem::path resolved = std::filesystem::canonical(root, root_error);
    if (absolute && !error && !root_error && IsBelow(path, resolved)) return path.string();
    // A missing folder is told apart only below a root: elsewhere it is nobody's business.
    if (absolute && error && IsBelow(given.lexically_normal(), std::filesystem::path(root))) {
      return Error{ErrorCode::kNotFound, Reason::kIo,
                   fmt::format("directory {}: {}", directory, error.message())};
    }
  }
  return Error{ErrorCode::kPermissionDenied, Reason::kBadConfig,
               fmt::format("directory {}: not an absolute path below store_root or one of "
                           "models.roots of the configuration: {}",
                           directory, fmt::join(roots, ", "))};
}

grpc::ServerUnaryReactor* ModelsService::List(grpc::CallbackServerContext* call,
                                              const v1::ListModelsRequest* /*request*/,
                                              v1::ListModelsReply* reply) {
  for (const ModelInfo& model : context_.core.ListModels()) *reply->add_models() = ToProto(model);
  return FinishNow(*call, grpc::Status::OK);
}

grpc::ServerUnaryReactor* ModelsService::Get(grpc::CallbackServerContext* call,
                                             const v1::GetModelRequest* request, v1::Model* reply) {
  const std::optional<ModelInfo> model = context_.core.FindModel(request->name());
  if (!model) {
    return FinishNow(*call, context_.Refuse(NotLoaded(request->name()), {.field = "name"}));
  }
  *reply = ToProto(*model);
  return FinishNow(*call, grpc::Status::OK);
}

template <typename Work>
grpc::ServerWriteReactor<v1::Progress>* ModelsService::StreamOn(AdminWorker& worker, Work work) {
  const std::shared_ptr<ProgressReactor> reactor = ProgressReactor::Make();
  const Status queued = worker.Run([this, reactor, work = std::move(work)](const Status& go) {
    const Status done = go ? work(*reactor) : go;
    reactor->End(done ? grpc::Status::OK : context_.Refuse(done.error()));
  });
  if (!queued) reactor->End(context_.Refuse(queued.error()));
  return reactor.get();
}

grpc::ServerWriteReactor<v1::Progress>* ModelsService::Load(grpc::CallbackServerContext* /*call*/,
                                                            const v1::LoadModelRequest* request) {
  return StreamOn(context_.admin.load, [this, request = *request](ProgressReactor& reactor) {
    return LoadAndReport(request, reactor);
  });
}

Status ModelsService::LoadAndReport(const v1::LoadModelRequest& request, ProgressReactor& reactor) {
  RETURN_IF_ERROR(CheckModelName(request.name()));
  ASSIGN_OR_RETURN(std::string directory,
                   ResolveUnderRoots(request.directory(), context_.model_roots));
  LoadSpec spec{.name = request.name(), .directory = std::move(directory), .ram_bytes = {}};
  if (request.ram_bytes() != 0) spec.ram_bytes = Bytes(request.ram_bytes());
  context_.log.info("loading model {} from {}", spec.name, spec.directory);
  // A client that goes away does not undo the load; the daemon's stop need not wait for it.
  RETURN_IF_ERROR(context_.core.LoadModel(spec, [&](const ModelProgress& progress) {
    reactor.Report(ToProto(progress));
    return context_.sessions.draining() ? GoOn::kNo : GoOn::kYes;
  }));
  v1::Progress last = Finished("load");
  if (const std::optional<ModelInfo> model = context_.core.FindModel(request.name())) {
    *last.mutable_model() = ToProto(*model);
    context_.model_changed(*model);
    // It serves already; who does not want to see the rest goes, and it is loaded all the same.
    (void)context_.core.AwaitPreheat(model->id, [&](const ModelProgress& progress) {
      reactor.Report(ToProto(progress));
      const bool unwanted = reactor.cancelled() || context_.sessions.draining();
      return unwanted ? GoOn::kNo : GoOn::kYes;
    });
  }
  reactor.Report(std::move(last));
  return Ok{};
}

grpc::ServerUnaryReactor* ModelsService::Unload(grpc::CallbackServerContext* call,
                                                const v1::UnloadModelRequest* request,
                                                v1::UnloadModelReply* /*reply*/) {
  return FinishOn(context_.admin.unload, context_, *call, [this, name = request->name()] {
    const Status unloaded = UnloadNow(name);
    return unloaded ? grpc::Status::OK : context_.Refuse(unloaded.error());
  });
}

Status ModelsService::UnloadNow(const std::string& name) {
  if (name.empty()) return NotLoaded(name);
  // While it loads there is nothing to unload; its state is nobody's to announce.
  ASSIGN_OR_RETURN(ModelInfo model, ChooseModel(context_.core, name));
  context_.log.info("unloading model {}", name);
  model.state = ModelState::kUnloading;
  context_.model_changed(model);
  const Status unloaded = context_.core.UnloadModel(name);
  if (!unloaded) {  // it serves on, or whatever the core says that it does
    if (const std::optional<ModelInfo> now = context_.core.FindModel(name)) {
      context_.model_changed(*now);
    }
  }
  return unloaded;
}

grpc::ServerWriteReactor<v1::Progress>* ModelsService::Verify(
    grpc::CallbackServerContext* /*call*/, const v1::VerifyModelRequest* request) {
  return StreamOn(context_.admin.verify, [this, name = request->name()](ProgressReactor& reactor) {
    return VerifyAndReport(name, reactor);
  });
}

Status ModelsService::VerifyAndReport(const std::string& name, ProgressReactor& reactor) {
  if (!context_.core.FindModel(name)) return NotLoaded(name);
  RETURN_IF_ERROR(context_.core.VerifyModel(name, [&](const ModelProgress& progress) {
    reactor.Report(ToProto(progress));
    const bool unwanted = reactor.cancelled() || context_.sessions.draining();
    return unwanted ? GoOn::kNo : GoOn::kYes;
  }));
  reactor.Report(Finished("verify"));
  return Ok{};
}

}  // namespace moetier
