#ifndef MOETIER_DAEMON_RPC_MODELS_SERVICE_H_
#define MOETIER_DAEMON_RPC_MODELS_SERVICE_H_

#include <memory>
#include <span>
#include <string>

#include "daemon/rpc/progress_reactor.h"
#include "daemon/rpc/service_context.h"
#include "moetier/v1/models.grpc.pb.h"

namespace moetier {

// `directory` with its links resolved, if it lies below one of `roots` (or is one). The daemon
// opens no path that a client names elsewhere: kPermissionDenied; kNotFound when there is no such
// folder.
Result<std::string> ResolveUnderRoots(const std::string& directory,
                                      std::span<const std::string> roots);

// List and Get answer at once; the others run on their workers of the AdminDesk.
class ModelsService final : public v1::Models::CallbackService {
 public:
  explicit ModelsService(ServiceContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* call,
                                 const v1::ListModelsRequest* request,
                                 v1::ListModelsReply* reply) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* call,
                                const v1::GetModelRequest* request, v1::Model* reply) override;
  grpc::ServerWriteReactor<v1::Progress>* Load(grpc::CallbackServerContext* call,
                                               const v1::LoadModelRequest* request) override;
  grpc::ServerUnaryReactor* Unload(grpc::CallbackServerContext* call,
                                   const v1::UnloadModelRequest* request,
                                   v1::UnloadModelReply* reply) override;
  grpc::ServerWriteReactor<v1::Progress>* Verify(grpc::CallbackServerContext* call,
                                                 const v1::VerifyModelRequest* request) override;

 private:
  Status LoadAndReport(const v1::LoadModelRequest& request, ProgressReactor& reactor);
  Status VerifyAndReport(const std::string& name, ProgressReactor& reactor);
  Status UnloadNow(const std::string& name);
  // Runs `work` on the worker; its status ends the stream.
  template <typename Work>
  grpc::ServerWriteReactor<v1::Progress>* StreamOn(AdminWorker& worker, Work work);

  ServiceContext& context_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_MODELS_SERVICE_H_
