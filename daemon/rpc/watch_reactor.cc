#include "daemon/rpc/watch_reactor.h"

#include <utility>

namespace moetier {

WatchReactor* WatchReactor::Start(StatusReport& report, std::chrono::milliseconds interval) {
  const std::shared_ptr<WatchReactor> reactor(new WatchReactor(report, interval));
  reactor->self_ = reactor;
  reactor->WriteNow();
  return reactor.get();
}

void WatchReactor::WriteNow() {
  v1::StatusReply status = report_.Make();
  const MutexLock lock(mu_);
  if (cancelled_ || writing_) return;
  current_ = std::move(status);
  writing_ = true;
  StartWrite(&current_);
}

void WatchReactor::OnWriteDone(bool ok) {
  const MutexLock lock(mu_);
  writing_ = false;
  if (!ok || cancelled_) return End(grpc::Status::CANCELLED);
  if (current_.state() == v1::DAEMON_STATE_DRAINING) {
    return End(
        ToGrpcStatus({ErrorCode::kUnavailable, Reason::kDraining, "the daemon is stopping"}));
  }
  // Weak: the alarm, a member, keeps its callback even after it rang, and a strong pointer there
  // would keep the reactor for ever.
  alarm_.Set(std::chrono::system_clock::now() + interval_, [weak = weak_from_this()](bool rang) {
    const std::shared_ptr<WatchReactor> self = weak.lock();
    if (rang && self != nullptr) self->WriteNow();
  });
}

void WatchReactor::OnCancel() {
  const MutexLock lock(mu_);
  cancelled_ = true;
  alarm_.Cancel();
  if (!writing_) End(grpc::Status::CANCELLED);
}

void WatchReactor::End(const grpc::Status& status) {
  cancelled_ = true;
  if (!std::exchange(finished_, true)) Finish(status);
}

void WatchReactor::OnDone() {
  // Moved out first: the reset may delete this object.
  const std::shared_ptr<WatchReactor> self = std::move(self_);
}

}  // namespace moetier
