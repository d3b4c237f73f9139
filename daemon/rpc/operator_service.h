#ifndef MOETIER_DAEMON_RPC_OPERATOR_SERVICE_H_
#define MOETIER_DAEMON_RPC_OPERATOR_SERVICE_H_

#include "daemon/rpc/service_context.h"
#include "daemon/rpc/status_report.h"
#include "moetier/v1/operator.grpc.pb.h"

namespace moetier {

// Status, heat and traces at once; Pin, Unpin, Reload and SetBudget on their workers of the
// AdminDesk. Threads: gRPC's.
class OperatorService final : public v1::Operator::CallbackService {
 public:
  explicit OperatorService(ServiceContext& context) : context_(context), report_(context) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* call,
                                      const v1::GetStatusRequest* request,
                                      v1::StatusReply* reply) override;
  grpc::ServerWriteReactor<v1::StatusReply>* WatchStatus(
      grpc::CallbackServerContext* call, const v1::WatchStatusRequest* request) override;
  grpc::ServerUnaryReactor* SetBudget(grpc::CallbackServerContext* call,
                                      const v1::SetBudgetRequest* request,
                                      v1::SetBudgetReply* reply) override;
  grpc::ServerUnaryReactor* Pin(grpc::CallbackServerContext* call, const v1::PinRequest* request,
                                v1::PinReply* reply) override;
  grpc::ServerUnaryReactor* Unpin(grpc::CallbackServerContext* call, const v1::PinRequest* request,
                                  v1::PinReply* reply) override;
  grpc::ServerUnaryReactor* GetHeat(grpc::CallbackServerContext* call,
                                    const v1::GetHeatRequest* request, v1::Heat* reply) override;
  grpc::ServerUnaryReactor* SetHeat(grpc::CallbackServerContext* call, const v1::Heat* request,
                                    v1::SetHeatReply* reply) override;
  grpc::ServerWriteReactor<v1::TraceRecord>* RecordTrace(
      grpc::CallbackServerContext* call, const v1::RecordTraceRequest* request) override;
  grpc::ServerUnaryReactor* Reload(grpc::CallbackServerContext* call,
                                   const v1::ReloadRequest* request,
                                   v1::ReloadReply* reply) override;

 private:
  enum class PinChange : uint8_t { kPin, kUnpin };
  grpc::Status ChangePins(PinChange change, const v1::PinRequest& request, v1::PinReply& reply);
  grpc::Status ReloadNow(v1::ReloadReply& reply);
  grpc::Status SetBudgetNow(const v1::SetBudgetRequest& request, v1::SetBudgetReply& reply);
  grpc::Status LendBudgetNow(const ModelInfo& model, PoolId pool,
                             const v1::SetBudgetRequest& request, v1::SetBudgetReply& reply);

  ServiceContext& context_;
  StatusReport report_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_OPERATOR_SERVICE_H_
