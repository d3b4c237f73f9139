#include "daemon/rpc/trace_reactor.h"

#include <chrono>
#include <utility>

namespace moetier {
namespace {

constexpr std::chrono::milliseconds kLookEvery{20};

}  // namespace

TraceReactor::TraceReactor(ServiceContext& context, std::optional<ModelId> model)
    : context_(context),
      model_(model),
      tap_(std::make_shared<TraceTap>(model, context.clock, context.clock.Now())) {}

TraceReactor* TraceReactor::Start(ServiceContext& context, std::optional<ModelId> model) {
  const std::shared_ptr<TraceReactor> reactor(new TraceReactor(context, model));
  reactor->self_ = reactor;
  context.core.AddRouteTap(reactor->tap_);
  {
    const MutexLock lock(reactor->mu_);
    reactor->StartSendInitialMetadata();  // the client learns that recording has begun
    reactor->Pump();
  }
  return reactor.get();
}

void TraceReactor::Look() {
  const MutexLock lock(mu_);
  Pump();
}

void TraceReactor::Pump() {
  if (writing_ || finished_) return;
  // Asked before the tap is: what was answered before the drain is sent.
  const bool draining = context_.sessions.draining();
  if (std::optional<v1::TraceRecord> record = tap_->Take()) {
    current_ = *std::move(record);
    writing_ = true;
    StartWrite(&current_);
  } else if (draining) {
    End(ToGrpcStatus({ErrorCode::kUnavailable, Reason::kDraining, "the daemon is stopping"}));
  } else if (model_ && !context_.core.ModelById(*model_)) {
    End(ToGrpcStatus({ErrorCode::kNotFound, Reason::kUnknownModel,
                      "the model was unloaded; record again when it is loaded"}));
  } else {
    alarm_ = std::make_unique<grpc::Alarm>();
    // Weak: as in WatchReactor.
    alarm_->Set(std::chrono::system_clock::now() + kLookEvery,
                [weak = weak_from_this()](bool rang) {
                  const std::shared_ptr<TraceReactor> self = weak.lock();
                  if (rang && self != nullptr) self->Look();
                });
  }
}

void TraceReactor::OnWriteDone(bool ok) {
  const MutexLock lock(mu_);
  writing_ = false;
  if (!ok) return End(grpc::Status::CANCELLED);
  Pump();
}

void TraceReactor::OnCancel() {
  const MutexLock lock(mu_);
  if (alarm_ != nullptr) alarm_->Cancel();
  if (!writing_) End(grpc::Status::CANCELLED);
}

void TraceReactor::End(const grpc::Status& status) {
  tap_->Close();
  if (!std::exchange(finished_, true)) Finish(status);
}

void TraceReactor::OnDone() {
  // Moved out first: the reset may delete this object.
  const std::shared_ptr<TraceReactor> self = std::move(self_);
}

}  // namespace moetier
