#include "daemon/rpc/compute_reactor.h"

#include <grpcpp/server_context.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/rpc/call_deadline.h"
#include "daemon/rpc/layer_messages.h"
#include "daemon/rpc/request_validation.h"

namespace moetier {
ComputeReactor* ComputeReactor::Start(ServiceContext& context, grpc::CallbackServerContext& call,
                                      const v1::LayerRequest& request, v1::LayerReply& reply) {
  auto* reactor = new ComputeReactor(context, reply);  // OnDone deletes it
  reply.set_request_id(request.request_id());
  Result<std::shared_ptr<Session>> session = context.sessions.Find(request.session());
  if (session) {
    reactor->session_ = *std::move(session);
    reactor->Submit(call, request);
  } else {
    reactor->Finish(context.Refuse(session.error(), {.field = "session"}));
  }
  return reactor;
}

void ComputeReactor::Submit(grpc::CallbackServerContext& call, const v1::LayerRequest& request) {
  session_->counters().requests.fetch_add(1, std::memory_order_relaxed);
  session_->counters().in_flight.fetch_add(1, std::memory_order_relaxed);
  const TimePoint now = context_.clock.Now();
  FaultPlace place;
  Result<LayerCall> checked = ValidateLayerRequest(
      request, *session_->model().geometry,
      {.max_rows = context_.limits.max_rows, .lanes = context_.lanes}, now, place);
  if (!checked) return FinishFault(checked.error(), place);
  checked->model = session_->model().id;
  checked->session = session_->id();
  checked->control = control_;
  if (const auto left = TimeLeft(call)) {
    checked->deadline = std::min(checked->deadline.value_or(now + *left), now + *left);
  }
  const uint32_t rows = checked->rows;
  const Status submitted =
      context_.core.Submit(*std::move(checked), [this, rows](Result<LayerOutput> output) {
        if (output) {
          FinishResult(rows, *output);
        } else {
          FinishFault(output.error());
        }
      });
  if (!submitted) FinishFault(submitted.error());
}

void ComputeReactor::FinishFault(const Error& error, const FaultPlace& place) {
  session_->counters().in_flight.fetch_sub(1, std::memory_order_relaxed);
  session_->counters().faults.fetch_add(1, std::memory_order_relaxed);
  context_.counters.CountFault(session_->model().id, error.reason);
  Finish(ToGrpcStatus(error, place));
}

void ComputeReactor::FinishResult(uint32_t rows, const LayerOutput& output) {
  session_->counters().in_flight.fetch_sub(1, std::memory_order_relaxed);
  session_->counters().rows.fetch_add(rows, std::memory_order_relaxed);
  context_.counters.CountResult(session_->model().id, rows);
  FillResult(output, session_->model().arithmetic, *reply_.mutable_ok());
  Finish(grpc::Status::OK);
}

void ComputeReactor::OnCancel() { control_->cancelled.store(true, std::memory_order_relaxed); }

}  // namespace moetier
