#include "daemon/rpc/progress_reactor.h"

#include <utility>

namespace moetier {

std::shared_ptr<ProgressReactor> ProgressReactor::Make() {
  std::shared_ptr<ProgressReactor> reactor(new ProgressReactor());
  reactor->self_ = reactor;
  return reactor;
}

void ProgressReactor::Report(v1::Progress progress) {
  const MutexLock lock(mu_);
  if (next_) {
    progress.mutable_faulty()->MergeFrom(next_->faulty());
  }
  next_ = std::move(progress);
  Pump();
}

void ProgressReactor::End(const grpc::Status& status) {
  const MutexLock lock(mu_);
  if (!end_) end_ = status;
  Pump();
}

bool ProgressReactor::cancelled() {
  const MutexLock lock(mu_);
  return cancelled_;
}

void ProgressReactor::Pump() {
  if (writing_ || finished_) return;
  if (next_ && !cancelled_) {
    current_ = *std::move(next_);
    next_.reset();
    writing_ = true;
    StartWrite(&current_);
  } else if (end_) {
    finished_ = true;
    Finish(*end_);
  }
}

void ProgressReactor::OnWriteDone(bool ok) {
  const MutexLock lock(mu_);
  writing_ = false;
  if (!ok) cancelled_ = true;
  Pump();
}

void ProgressReactor::OnCancel() {
  const MutexLock lock(mu_);
  cancelled_ = true;
  Pump();
}

void ProgressReactor::OnDone() {
  // Moved out first: the reset may delete this object.
  const std::shared_ptr<ProgressReactor> self = std::move(self_);
}

}  // namespace moetier
