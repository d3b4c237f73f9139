#include "daemon/rpc/experts_service.h"

#include <utility>
#include <vector>

#include "daemon/rpc/attach_reactor.h"
#include "daemon/rpc/compute_reactor.h"
#include "daemon/rpc/decode_reactor.h"
#include "daemon/rpc/hint_validation.h"
#include "daemon/rpc/residency_messages.h"
#include "daemon/rpc/unary_reply.h"

namespace moetier {

grpc::ServerWriteReactor<v1::SessionEvent>* ExpertsService::Attach(
    grpc::CallbackServerContext* /*call*/, const v1::AttachRequest* request) {
  return AttachReactor::Start(context_, *request);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ExpertsService::Decode(
    grpc::CallbackServerContext* call) {
  return DecodeReactor::Start(context_, *call);
}

grpc::ServerUnaryReactor* ExpertsService::Compute(grpc::CallbackServerContext* call,
                                                  const v1::LayerRequest* request,
                                                  v1::LayerReply* reply) {
  return ComputeReactor::Start(context_, *call, *request, *reply);
}

grpc::ServerUnaryReactor* ExpertsService::Route(grpc::CallbackServerContext* call,
                                                const v1::RouteRequest* request,
                                                v1::RouteReply* reply) {
  const auto start = [this, request, reply](const Session& session, const LaterAnswer& answer,
                                            FaultPlace& place) -> Status {
    const LayerRequestView view{
        .layer = request->layer(),
        .rows = request->rows(),
        .top_k = request->top_k(),
        .experts = {request->experts().data(), static_cast<size_t>(request->experts_size())}};
    ASSIGN_OR_RETURN(std::vector<ExpertIndex> picks,
                     CheckRoutes(view, *session.model().geometry,
                                 {.max_rows = context_.limits.max_rows}, place));
    using Routed = std::vector<RoutedExpert>;
    context_.core.residency().Route(session.id(), static_cast<LayerIndex>(view.layer), view.rows,
                                    std::move(picks),
                                    answer.Then<Routed>([reply](const Routed& experts) {
                                      for (const RoutedExpert& expert : experts)
                                        *reply->add_experts() = ToProto(expert);
                                    }));
    return Ok{};
  };
  return AnswerLater(LaterAnswer(context_, *call->DefaultReactor()), request->session(), start);
}

grpc::ServerUnaryReactor* ExpertsService::Hint(grpc::CallbackServerContext* call,
                                               const v1::HintRequest* request,
                                               v1::HintReply* reply) {
  return FinishNow(*call, TakeHints(*request, *reply));
}

grpc::Status ExpertsService::TakeHints(const v1::HintRequest& request, v1::HintReply& reply) {
  const Result<std::shared_ptr<Session>> session = context_.sessions.Find(request.session());
  if (!session) return context_.Refuse(session.error(), {.field = "session"});
  const ModelInfo& model = (*session)->model();
  FaultPlace place;
  Result<std::vector<ExpertKey>> experts = ValidateHints(request.hints(), *model.geometry, place);
  if (!experts) return context_.Refuse(experts.error(), place);
  for (ExpertKey& key : *experts) key.model = model.id;
  reply.set_taken(context_.core.Hint((*session)->id(), *experts));
  return grpc::Status::OK;
}

}  // namespace moetier
