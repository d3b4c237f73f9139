#include "daemon/rpc/operator_service.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/text_size.h"
#include "daemon/rpc/heat_messages.h"
#include "daemon/rpc/trace_reactor.h"
#include "daemon/rpc/unary_reply.h"
#include "daemon/rpc/watch_reactor.h"
#include "daemon/transport/layer_request.h"
#include "daemon/transport/model_choice.h"
#include "daemon/transport/wire_text.h"

namespace moetier {
namespace {

// A stream that ends as it begins.
template <typename Message>
class RefusedStream final : public grpc::ServerWriteReactor<Message> {
 public:
  explicit RefusedStream(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { delete this; }
};

constexpr uint64_t kLongestHold = 366 * 24 * 3600;  // seconds of a changed budget

std::chrono::milliseconds WatchInterval(uint32_t requested) {
  if (requested == 0) return std::chrono::seconds(1);
  return std::chrono::milliseconds(std::clamp<uint32_t>(requested, 100, 60'000));
}

}  // namespace

grpc::ServerUnaryReactor* OperatorService::GetStatus(grpc::CallbackServerContext* call,
                                                     const v1::GetStatusRequest* /*request*/,
                                                     v1::StatusReply* reply) {
  *reply = report_.Make();
  return FinishNow(*call, grpc::Status::OK);
}

grpc::ServerWriteReactor<v1::StatusReply>* OperatorService::WatchStatus(
    grpc::CallbackServerContext* /*call*/, const v1::WatchStatusRequest* request) {
  return WatchReactor::Start(report_, WatchInterval(request->interval_ms()));
}

grpc::ServerUnaryReactor* OperatorService::SetBudget(grpc::CallbackServerContext* call,
                                                     const v1::SetBudgetRequest* request,
                                                     v1::SetBudgetReply* reply) {
  return FinishOn(context_.admin.budget, context_, *call,
                  [this, request, reply] { return SetBudgetNow(*request, *reply); });
}

grpc::Status OperatorService::SetBudgetNow(const v1::SetBudgetRequest& request,
                                           v1::SetBudgetReply& reply) {
  const Result<ModelInfo> model = ChooseModel(context_.core, request.model());
  if (!model) return context_.Refuse(model.error(), {.field = "model"});
  if (request.pool() > Raw(kDevicePool)) {
    return context_.Refuse({ErrorCode::kInvalidArgument, Reason::kUnspecified,
                            fmt::format("pool {}: there are {}, RAM, and {}, the device",
                                        request.pool(), Raw(kRamPool), Raw(kDevicePool))},
                           {.field = "pool"});
  }
  const ModelPool of{model->id, PoolId{static_cast<uint8_t>(request.pool())}};
  if (request.for_seconds() > kLongestHold) {
    return context_.Refuse(
        {ErrorCode::kInvalidArgument, Reason::kTooLarge,
         fmt::format("for_seconds {}: at most {}, a year", request.for_seconds(), kLongestHold)},
        {.field = "for_seconds"});
  }
  if (request.less_bytes() != 0) return LendBudgetNow(*model, of.pool, request, reply);
  std::optional<std::chrono::seconds> hold;
  if (request.for_seconds() != 0) hold = std::chrono::seconds(request.for_seconds());
  const Result<Bytes> set = context_.core.SetBudget(of, Bytes(request.bytes()), hold);
  if (!set) return context_.Refuse(set.error(), {.field = "bytes"});
  context_.log.info("model {}: its budget in pool {} is {}{}", model->name, Raw(of.pool),
                    FormatSize(*set), hold ? fmt::format(" for {} s", hold->count()) : "");
  reply.set_bytes(set->count());
  return grpc::Status::OK;
}

grpc::Status OperatorService::LendBudgetNow(const ModelInfo& model, PoolId pool,
                                            const v1::SetBudgetRequest& request,
                                            v1::SetBudgetReply& reply) {
  if (request.bytes() != 0 || request.for_seconds() == 0) {
    return context_.Refuse({ErrorCode::kInvalidArgument, Reason::kBadShape,
                            "less_bytes is for a while, with for_seconds, and in place of bytes"},
                           {.field = "less_bytes"});
  }
  const std::chrono::seconds hold(request.for_seconds());
  const Result<BudgetLoan> loan =
      context_.core.LendBudget({model.id, pool}, Bytes(request.less_bytes()), hold);
  if (!loan) return context_.Refuse(loan.error(), {.field = "less_bytes"});
  context_.log.info("model {}: its budget in pool {} is {} for {} s, then {} again", model.name,
                    Raw(pool), FormatSize(loan->in_force), hold.count(),
                    FormatSize(loan->original));
  reply.set_bytes(loan->in_force.count());
  reply.set_original_bytes(loan->original.count());
  return grpc::Status::OK;
}

grpc::ServerUnaryReactor* OperatorService::Pin(grpc::CallbackServerContext* call,
                                               const v1::PinRequest* request, v1::PinReply* reply) {
  return FinishOn(context_.admin.pin, context_, *call,
                  [this, request, reply] { return ChangePins(PinChange::kPin, *request, *reply); });
}

grpc::ServerUnaryReactor* OperatorService::Unpin(grpc::CallbackServerContext* call,
                                                 const v1::PinRequest* request,
                                                 v1::PinReply* reply) {
  return FinishOn(context_.admin.pin, context_, *call, [this, request, reply] {
    return ChangePins(PinChange::kUnpin, *request, *reply);
  });
}

grpc::Status OperatorService::ChangePins(PinChange change, const v1::PinRequest& request,
                                         v1::PinReply& reply) {
  const std::optional<ModelInfo> model = context_.core.FindModel(request.model());
  if (!model) {
    return context_.Refuse(NotLoaded(request.model()), {.field = "model"});
  }
  FaultPlace place;
  const std::span<const uint32_t> named(request.experts().data(),
                                        static_cast<size_t>(request.experts_size()));
  const Result<std::vector<ExpertIndex>> experts =
      CheckExperts(request.layer(), named, *model->geometry, place);
  if (!experts) return context_.Refuse(experts.error(), place);
  const auto layer = static_cast<LayerIndex>(request.layer());
  const Result<uint32_t> changed = change == PinChange::kPin
                                       ? context_.core.Pin(model->id, layer, *experts)
                                       : context_.core.Unpin(model->id, layer, *experts);
  if (!changed) return context_.Refuse(changed.error());
  reply.set_changed(*changed);
  return grpc::Status::OK;
}

grpc::ServerUnaryReactor* OperatorService::GetHeat(grpc::CallbackServerContext* call,
                                                   const v1::GetHeatRequest* request,
                                                   v1::Heat* reply) {
  const Result<ModelInfo> model = ChooseModel(context_.core, request->model());
  if (!model) return FinishNow(*call, context_.Refuse(model.error(), {.field = "model"}));
  const Result<ModelHeat> heat = context_.core.GetHeat(model->id);
  if (!heat) return FinishNow(*call, context_.Refuse(heat.error(), {.field = "model"}));
  *reply = ToProto(*heat, model->name);
  return FinishNow(*call, grpc::Status::OK);
}

grpc::ServerUnaryReactor* OperatorService::SetHeat(grpc::CallbackServerContext* call,
                                                   const v1::Heat* request,
                                                   v1::SetHeatReply* /*reply*/) {
  const Result<ModelInfo> model = ChooseModel(context_.core, request->model());
  if (!model) return FinishNow(*call, context_.Refuse(model.error(), {.field = "model"}));
  const Result<ModelHeat> heat = FromProto(*request);
  if (!heat) return FinishNow(*call, context_.Refuse(heat.error(), {.field = "layers"}));
  const Status set = context_.core.SetHeat(model->id, *heat);
  if (!set) return FinishNow(*call, context_.Refuse(set.error()));
  context_.log.info("model {}: heat set by an operator", model->name);
  return FinishNow(*call, grpc::Status::OK);
}

grpc::ServerWriteReactor<v1::TraceRecord>* OperatorService::RecordTrace(
    grpc::CallbackServerContext* /*call*/, const v1::RecordTraceRequest* request) {
  if (request->model().empty()) return TraceReactor::Start(context_, std::nullopt);
  const std::optional<ModelInfo> model = context_.core.FindModel(request->model());
  if (model) return TraceReactor::Start(context_, model->id);
  // OnDone deletes it.
  return new RefusedStream<v1::TraceRecord>(
      context_.Refuse(NotLoaded(request->model()), {.field = "model"}));
}

grpc::ServerUnaryReactor* OperatorService::Reload(grpc::CallbackServerContext* call,
                                                  const v1::ReloadRequest* /*request*/,
                                                  v1::ReloadReply* reply) {
  return FinishOn(context_.admin.reload, context_, *call,
                  [this, reply] { return ReloadNow(*reply); });
}

grpc::Status OperatorService::ReloadNow(v1::ReloadReply& reply) {
  const Result<ReloadReport> report = context_.reload();
  if (!report) return context_.Refuse(report.error());
  for (const std::string& key : report->changed) reply.add_changed(WireText(key));
  for (const std::string& key : report->needs_restart) reply.add_needs_restart(WireText(key));
  return grpc::Status::OK;
}

}  // namespace moetier
