#include "daemon/rpc/decode_reactor.h"

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/server_context.h>

#include <utility>

#include "base/check.h"
#include "daemon/rpc/layer_messages.h"
#include "daemon/rpc/request_validation.h"

namespace moetier {
namespace {

Error MissingOpen() {
  return Error{ErrorCode::kInvalidArgument, Reason::kNoOpen,
               "the first message of a Decode stream must be Open with the grant's session and "
               "token"};
}

}  // namespace

DecodeReactor* DecodeReactor::Start(ServiceContext& context, grpc::CallbackServerContext& call) {
  const std::shared_ptr<DecodeReactor> reactor(new DecodeReactor(context, call));
  reactor->self_ = reactor;
  const MutexLock lock(reactor->mu_);
  reactor->Pump();
  return reactor.get();
}

void DecodeReactor::OnReadDone(bool ok) {
  if (!ok) {
    const MutexLock lock(mu_);
    reading_ = false;
    half_closed_ = true;
    if (session_ == nullptr && !end_) end_ = context_.Refuse(MissingOpen());
    Pump();
    return;
  }
  const Status taken = Handle();
  request_.Clear();  // an idle stream holds no message's memory
  const MutexLock lock(mu_);
  reading_ = false;
  if (!taken && !end_) {
    end_ = context_.Refuse(taken.error());
    CancelCalls();
  }
  Pump();
}

Status DecodeReactor::Handle() {
  const grpc::Status parsed =
      grpc::SerializationTraits<v1::DecodeRequest>::Deserialize(&received_, &request_);
  if (!parsed.ok()) {
    return Error{ErrorCode::kInvalidArgument, Reason::kBadType,
                 "the bytes of a message are no DecodeRequest"};
  }
  return session_ == nullptr ? Open() : Take();
}

Status DecodeReactor::Open() {
  if (!request_.has_open()) return MissingOpen();
  ASSIGN_OR_RETURN(std::shared_ptr<Session> session, context_.sessions.Find(request_.open()));
  RETURN_IF_ERROR(session->AddStream(shared_from_this()));
  const MutexLock lock(mu_);  // a cancel may finish the stream meanwhile
  session_ = std::move(session);
  return Ok{};
}

Status DecodeReactor::Take() {
  switch (request_.body_case()) {
    case v1::DecodeRequest::kLayer: {
      auto control = std::make_shared<CallControl>();
      RETURN_IF_ERROR(Register(request_.layer().request_id(), control));
      Submit(request_.layer(), std::move(control));
      return Ok{};
    }
    case v1::DecodeRequest::kCancelRequestId:
      Cancel(request_.cancel_request_id());
      return Ok{};
    case v1::DecodeRequest::kOpen:
      return Error{ErrorCode::kInvalidArgument, Reason::kNoOpen,
                   "Open came twice; only the first message of a Decode stream is one"};
    case v1::DecodeRequest::BODY_NOT_SET:
      break;
  }
  return Error{ErrorCode::kInvalidArgument, Reason::kBadType,
               "a DecodeRequest without a body; it needs layer or cancel_request_id"};
}

Status DecodeReactor::Register(uint64_t request_id, std::shared_ptr<CallControl> control) {
  const MutexLock lock(mu_);
  if (!calls_.emplace(request_id, std::move(control)).second) {
    return Error{ErrorCode::kInvalidArgument, Reason::kRequestIdInUse,
                 fmt::format("request_id {} is in use by an unanswered message", request_id)};
  }
  ++unanswered_;
  return Ok{};
}

void DecodeReactor::Submit(const v1::LayerRequest& request, std::shared_ptr<CallControl> control) {
  session_->counters().requests.fetch_add(1, std::memory_order_relaxed);
  session_->counters().in_flight.fetch_add(1, std::memory_order_relaxed);
  const uint64_t id = request.request_id();
  FaultPlace place;
  Result<LayerCall> call = ValidateLayerRequest(
      request, *session_->model().geometry,
      {.max_rows = context_.limits.max_rows, .lanes = context_.lanes}, context_.clock.Now(), place);
  if (!call) return AnswerFault(id, call.error(), place);
  call->model = session_->model().id;
  call->session = session_->id();
  call->control = std::move(control);
  const uint32_t rows = call->rows;
  const Status submitted = context_.core.Submit(
      *std::move(call), [self = shared_from_this(), id, rows](Result<LayerOutput> output) {
        if (output) {
          self->AnswerResult(id, rows, *std::move(output));
        } else {
          self->AnswerFault(id, output.error());
        }
      });
  if (!submitted) AnswerFault(id, submitted.error());
}

void DecodeReactor::Cancel(uint64_t request_id) {
  const MutexLock lock(mu_);
  const auto call = calls_.find(request_id);
  if (call != calls_.end()) call->second->cancelled.store(true, std::memory_order_relaxed);
}

void DecodeReactor::AnswerFault(uint64_t request_id, const Error& error, const FaultPlace& place) {
  session_->counters().faults.fetch_add(1, std::memory_order_relaxed);
  context_.counters.CountFault(session_->model().id, error.reason);
  v1::LayerReply reply;
  reply.set_request_id(request_id);
  *reply.mutable_fault() = ToFault(error, place);
  Answer(std::move(reply));
}

void DecodeReactor::AnswerResult(uint64_t request_id, uint32_t rows, LayerOutput output) {
  session_->counters().rows.fetch_add(rows, std::memory_order_relaxed);
  context_.counters.CountResult(session_->model().id, rows);
  v1::LayerReply reply;
  reply.set_request_id(request_id);
  FillResult(output, session_->model().arithmetic, *reply.mutable_ok());
  Answer(std::move(reply));
}

void DecodeReactor::Answer(v1::LayerReply reply) {
  session_->counters().in_flight.fetch_sub(1, std::memory_order_relaxed);
  const MutexLock lock(mu_);
  if (finished_) return;
  replies_.push_back(std::move(reply));
  Pump();
}

void DecodeReactor::Pump() {
  if (finished_) return;
  if (end_) {
    if (!writing_) FinishWith(*end_);
    return;
  }
  if (!writing_ && !replies_.empty()) WriteNext();
  if (unanswered_ == 0 && (half_closed_ || drain_)) {
    FinishWith(half_closed_ ? grpc::Status::OK : *drain_);
    return;
  }
  if (!reading_ && !half_closed_ && unanswered_ < context_.limits.max_in_flight) {
    reading_ = true;
    StartRead(&received_);
  }
}

void DecodeReactor::WriteNext() {
  const v1::LayerReply reply = std::move(replies_.front());
  replies_.pop_front();
  calls_.erase(reply.request_id());
  current_.Clear();
  bool owned = false;
  const grpc::Status packed =
      grpc::SerializationTraits<v1::LayerReply>::Serialize(reply, &current_, &owned);
  MOE_CHECK(packed.ok(), "a reply cannot be packed: {}", packed.error_message());
  writing_ = true;
  StartWrite(&current_);
}

void DecodeReactor::FinishWith(const grpc::Status& status) {
  finished_ = true;
  replies_.clear();
  // Before the client can see the end, so that it may open the next stream at once.
  if (session_ != nullptr) session_->RemoveStream(this);
  Finish(status);
}

void DecodeReactor::CancelCalls() {
  for (const auto& [id, control] : calls_) {
    control->cancelled.store(true, std::memory_order_relaxed);
  }
}

void DecodeReactor::EndStream(const Error& why) {
  const MutexLock lock(mu_);
  if (finished_ || end_ || drain_) return;
  end_ = ToGrpcStatus(why);
  CancelCalls();
  // A write that the client does not take would hold the end back for as long as it likes.
  if (writing_) call_.TryCancel();
  Pump();
}

void DecodeReactor::DrainStream(const Error& why) {
  const MutexLock lock(mu_);
  if (finished_ || drain_) return;
  drain_ = ToGrpcStatus(why);
  Pump();
}

void DecodeReactor::OnWriteDone(bool ok) {
  const MutexLock lock(mu_);
  writing_ = false;
  --unanswered_;
  if (!ok && !end_) {  // the client is gone; OnCancel says so too
    end_ = grpc::Status::CANCELLED;
    CancelCalls();
  }
  Pump();
}

void DecodeReactor::OnCancel() {
  const MutexLock lock(mu_);
  if (!end_) end_ = grpc::Status::CANCELLED;
  CancelCalls();
  Pump();
}

void DecodeReactor::OnDone() {
  if (session_ != nullptr) session_->RemoveStream(this);
  // Moved out first: the reset may delete this object.
  const std::shared_ptr<DecodeReactor> self = std::move(self_);
}

}  // namespace moetier
