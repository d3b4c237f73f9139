// LayerExecutor and its CallSource: calls that it finds by looking, and how it sleeps meanwhile.

#include <algorithm>
#include <future>
#include <utility>

#include "base/check.h"
#include "daemon/scheduling/layer_executor.h"

namespace moetier {
namespace {

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Status LayerExecutor::SetSource(CallSource& source) {
  Status opened = Ok{};
  RunOnThread([&] {
    MOE_CHECK(source_ == nullptr, "an executor has one source");
    opened = mailbox_.EnableWaitWith();
    if (opened.has_value()) source_ = &source;
  });
  return opened;
}

void LayerExecutor::ClearSource(CallSource& source) {
  RunOnThread([&] {
    if (source_ == &source) source_ = nullptr;
  });
}

uint32_t LayerExecutor::Room() const {
  return options_.max_queued_calls - std::min(accepted_.load(), options_.max_queued_calls);
}

void LayerExecutor::PollSource() {
  if (source_ != nullptr) source_->Poll(*this, Room());
}

Status LayerExecutor::Take(LayerCall call, LayerDone done) {
  if (stopping_.load()) {
    return Error{ErrorCode::kUnavailable, Reason::kDraining, "the daemon is shutting down"};
  }
  const auto found = models_.find(call.model);
  if (found == models_.end()) {
    return Error{ErrorCode::kNotFound, Reason::kUnknownModel, "the model is not loaded any more"};
  }
  if (found->second->removed) {
    return Error{ErrorCode::kUnavailable, Reason::kDraining,
                 fmt::format("model `{}` is being unloaded", found->second->name)};
  }
  accepted_.fetch_add(1);
  queue_.push_back(PendingCall{std::move(call), std::move(done), {}, {}});
  return Ok{};
}

// True when there is something to do.
bool LayerExecutor::SpinForWork() {
  if (options_.spin.count() == 0 || !source_->HasClients()) return false;
  const TimePoint end = clock_.Now() + options_.spin;
  do {
    if (mailbox_.HasMail() || (Room() > 0 && source_->Ready())) return true;
    Pause();
  } while (clock_.Now() < end);
  return false;
}

void LayerExecutor::Rest() {
  if (source_ == nullptr) return mailbox_.Wait(EarliestDeadline());
  if (SpinForWork()) return;
  source_->BeginSleep();
  // Without room the answers of calls under way come first, and they come by mail.
  if (Room() == 0 || !source_->Ready()) {
    mailbox_.WaitWith(source_->descriptor(), EarliestDeadline());
  }
  source_->EndSleep();
}

}  // namespace moetier
