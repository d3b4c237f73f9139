#include "daemon/rpc/attach_reactor.h"

#include <algorithm>
#include <utility>

#include "daemon/rpc/model_messages.h"
#include "daemon/transport/model_choice.h"

namespace moetier {
namespace {

constexpr size_t kMaxClientName = 128;

constexpr v1::Feature kFeatures[] = {v1::FEATURE_VICTIMS, v1::FEATURE_TRANSFER_DONE,
                                     v1::FEATURE_MODEL_CHANGED, v1::FEATURE_LEASES_LOST};

// Of those wanted, what this version gives, each once.
std::vector<v1::Feature> FeaturesFor(const v1::AttachRequest& request) {
  std::vector<v1::Feature> given;
  for (const v1::Feature feature : kFeatures) {
    if (std::ranges::find(request.features(), feature) != request.features().end()) {
      given.push_back(feature);
    }
  }
  return given;
}

v1::Grant MakeGrant(const ServiceContext& context, const Session& session, Bytes max_leased) {
  v1::Grant grant;
  grant.set_session(Raw(session.id()));
  grant.set_token(session.options().token);
  v1::Limits& limits = *grant.mutable_limits();
  limits.set_max_rows(context.limits.max_rows);
  limits.set_max_in_flight(context.limits.max_in_flight);
  limits.set_max_message_bytes(context.limits.max_message_bytes.count());
  limits.set_max_leased_bytes(max_leased.count());
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
  {
    const MutexLock lock(reactor->mu_);
    reactor->granted_ = true;
    if (grant) {
      reactor->events_.PushFirst(*std::move(grant));  // before events that came since Open
    } else {
      reactor->end_ = context.Refuse(grant.error());
    }
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
  features_ = FeaturesFor(request);
  ASSIGN_OR_RETURN(session_,
                   context_.sessions.Open(request.client(), std::move(model), weak_from_this()));
  context_.log.info("session {} of \"{}\" attached to {}", Raw(session_->id()), request.client(),
                    session_->model().name);
  v1::SessionEvent event;
  *event.mutable_grant() = MakeGrant(context_, *session_, OpenResidency());
  for (const v1::Feature feature : features_) event.mutable_grant()->add_features(feature);
  return event;
}

Bytes AttachReactor::OpenResidency() {
  ResidencyCalls& residency = context_.core.residency();
  const ModelInfo& model = session_->model();
  Bytes max_leased = residency.LeasableBytes(model.id);
  if (const auto& configured = context_.limits.leased) {
    max_leased = std::min(max_leased, ResolveBudget(*configured, model.geometry->TotalBytes()));
  }
  const bool listens = Wants(v1::FEATURE_VICTIMS) || Wants(v1::FEATURE_TRANSFER_DONE) ||
                       Wants(v1::FEATURE_LEASES_LOST);
  residency.OpenSession(
      {.id = session_->id(),
       .model = model.id,
       .max_leased = max_leased,
       .listener = listens ? weak_from_this() : std::weak_ptr<ResidencyListener>()});
  return max_leased;
}

bool AttachReactor::Wants(v1::Feature feature) const {
  return std::ranges::find(features_, feature) != features_.end();
}

void AttachReactor::SendEvent(const v1::SessionEvent& event) {
  if (event.has_model_changed() && !Wants(v1::FEATURE_MODEL_CHANGED)) return;
  {
    const MutexLock lock(mu_);
    if (finished_ || end_) return;
    EndIfFull(events_.Push(event));
  }
  Pump();
}

void AttachReactor::OnVictims(const Victims& victims) {
  if (!Wants(v1::FEATURE_VICTIMS)) return;
  const MutexLock lock(mu_);
  if (finished_ || end_) return;
  EndIfFull(events_.Push(victims));
  AskToWrite();
}

void AttachReactor::OnTransferEnded(const EndedTransfer& transfer) {
  if (!Wants(v1::FEATURE_TRANSFER_DONE)) return;
  const MutexLock lock(mu_);
  if (finished_ || end_) return;
  EndIfFull(events_.Push(transfer));
  AskToWrite();
}

void AttachReactor::OnLeasesLost(const LostLeases& lost) {
  if (!Wants(v1::FEATURE_LEASES_LOST)) return;
  const MutexLock lock(mu_);
  if (finished_ || end_) return;
  EndIfFull(events_.Push(lost));
  AskToWrite();
}

// The server, and with it the pump, lives on while the stream is not finished.
void AttachReactor::AskToWrite() {
  if (!granted_ || writing_ || asked_) return;  // Start, OnWriteDone or the pump will see to it
  asked_ = true;
  context_.events.Ask(shared_from_this());
}

void AttachReactor::WriteEvents() {
  {
    const MutexLock lock(mu_);
    asked_ = false;
  }
  Pump();
}

void AttachReactor::EndIfFull(const Status& pushed) {
  if (pushed) return;
  end_ = ToGrpcStatus(pushed.error());
  events_.Clear();
}

void AttachReactor::EndStream(const Error& why) {
  {
    const MutexLock lock(mu_);
    if (!end_) end_ = ToGrpcStatus(why);
  }
  Pump();
}

void AttachReactor::Pump() {
  PendingEvent next;
  {
    const MutexLock lock(mu_);
    if (!granted_ || writing_ || finished_) return;
    if (events_.empty()) {
      if (!end_) return;
      finished_ = true;
      Finish(*end_);
      return;
    }
    next = events_.Take();
    writing_ = true;
  }
  current_ = ToProto(std::move(next));
  StartWrite(&current_);
}

void AttachReactor::OnWriteDone(bool ok) {
  {
    const MutexLock lock(mu_);
    writing_ = false;
    if (!ok) {  // the client is gone; OnCancel says so too
      events_.Clear();
      if (!end_) end_ = grpc::Status::CANCELLED;
    }
  }
  Pump();
}

void AttachReactor::OnCancel() {
  CloseSession();
  {
    const MutexLock lock(mu_);
    events_.Clear();
    if (!end_) end_ = grpc::Status::CANCELLED;
  }
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
