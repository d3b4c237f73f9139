#include "daemon/rpc/attach_reactor.h"

#include <algorithm>
#include <utility>

#include "daemon/rpc/model_messages.h"
#include "daemon/transport/model_choice.h"

namespace moetier {
namespace {

constexpr size_t kMaxClientName = 128;

v1::Grant MakeGrant(const ServiceContext& context, const Session& session) {
  v1::Grant grant;
  grant.set_session(Raw(session.id()));
  grant.set_token(session.options().token);
  v1::Limits& limits = *grant.mutable_limits();
  limits.set_max_rows(context.limits.max_rows);
  limits.set_max_in_flight(context.limits.max_in_flight);
  limits.set_max_message_bytes(context.limits.max_message_bytes.count());
  const StatusSnapshot status = context.core.Snapshot();
  for (const PoolSnapshot& pool : status.pools) *grant.add_pools() = ToProto(pool);
  for (const LaneSnapshot& lane : status.lanes) *grant.add_lanes() = ToProto(lane);
  *grant.mutable_model() = ToProto(session.model());
  grant.set_arithmetic(session.model().arithmetic);
  grant.set_daemon_version(context.version);
  grant.set_fast_lane_address(context.fast_lane_address);
  return grant;
}

}  // namespace

AttachReactor* AttachReactor::Start(ServiceContext& context, const v1::AttachRequest& request) {
  const std::shared_ptr<AttachReactor> reactor(new AttachReactor(context));
  reactor->self_ = reactor;
  Result<v1::SessionEvent> grant = reactor->Open(request);
  const MutexLock lock(reactor->mu_);
  reactor->granted_ = true;
  if (grant) {
    reactor->events_.push_front(*std::move(grant));  // before events that came since Open
  } else {
    reactor->end_ = context.Refuse(grant.error());
  }
  reactor->Pump();
  return reactor.get();
}

Result<v1::SessionEvent> AttachReactor::Open(const v1::AttachRequest& request) {
  if (request.client().size() > kMaxClientName) {
    return Error{ErrorCode::kInvalidArgument, Reason::kTooLarge,
                 fmt::format("client: a name of {} bytes; at most {} are allowed",
                             request.client().size(), kMaxClientName)};
  }
  ASSIGN_OR_RETURN(ModelInfo model, ChooseModel(context_.core, request.model()));
  wants_model_changes_ =
      std::ranges::find(request.features(), v1::FEATURE_MODEL_CHANGED) != request.features().end();
  ASSIGN_OR_RETURN(session_,
                   context_.sessions.Open(request.client(), std::move(model), weak_from_this()));
  context_.log.info("session {} of \"{}\" attached to {}", Raw(session_->id()), request.client(),
                    session_->model().name);
  v1::SessionEvent event;
  *event.mutable_grant() = MakeGrant(context_, *session_);
  // The other features speak of leases and transfers, which this version does not give.
  if (wants_model_changes_) event.mutable_grant()->add_features(v1::FEATURE_MODEL_CHANGED);
  return event;
}

void AttachReactor::SendEvent(const v1::SessionEvent& event) {
  if (event.has_model_changed() && !wants_model_changes_) return;
  const MutexLock lock(mu_);
  if (finished_ || end_) return;
  if (events_.size() >= kMaxQueuedEvents) {
    end_ = ToGrpcStatus({ErrorCode::kExhausted, Reason::kQuota,
                         fmt::format("{} events wait for a client that does not read its Attach "
                                     "stream",
                                     events_.size())});
    events_.clear();
    Pump();
    return;
  }
  events_.push_back(event);
  Pump();
}

void AttachReactor::EndStream(const Error& why) {
  const MutexLock lock(mu_);
  if (!end_) end_ = ToGrpcStatus(why);
  Pump();
}

void AttachReactor::Pump() {
  if (!granted_ || writing_ || finished_) return;
  if (!events_.empty()) {
    current_ = std::move(events_.front());
    events_.pop_front();
    writing_ = true;
    StartWrite(&current_);
  } else if (end_) {
    finished_ = true;
    Finish(*end_);
  }
}

void AttachReactor::OnWriteDone(bool ok) {
  const MutexLock lock(mu_);
  writing_ = false;
  if (!ok) {  // the client is gone; OnCancel says so too
    events_.clear();
    if (!end_) end_ = grpc::Status::CANCELLED;
  }
  Pump();
}

void AttachReactor::OnCancel() {
  CloseSession();
  const MutexLock lock(mu_);
  events_.clear();
  if (!end_) end_ = grpc::Status::CANCELLED;
  Pump();
}

void AttachReactor::OnDone() {
  CloseSession();
  // Moved out first: the reset may delete this object.
  const std::shared_ptr<AttachReactor> self = std::move(self_);
}

void AttachReactor::CloseSession() {
  if (session_ == nullptr) return;
  context_.sessions.Close(session_->id());
}

}  // namespace moetier
