#ifndef MOETIER_DAEMON_SCHEDULING_MAILBOX_H_
#define MOETIER_DAEMON_SCHEDULING_MAILBOX_H_

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "daemon/scheduling/mailbox_wake.h"

namespace moetier {

// Messages of many threads for one owner thread, in order. The senders bound what they send (calls
// by the queue limit, landings by the slots), so Send never blocks and never fails.
template <typename Message>
class Mailbox {
 public:
  void Send(Message message) EXCLUDES(mu_) {
    bool wake = false;
    {
      MutexLock lock(mu_);
      messages_.push_back(std::move(message));
      pending_.store(true, std::memory_order_release);
      wake = std::exchange(waits_with_descriptor_, false);
    }
    if (wake) {
      wake_.Ring();
    } else {
      arrived_.notify_one();
    }
  }

  // Whether Drain would find something.
  [[nodiscard]] bool HasMail() const { return pending_.load(std::memory_order_acquire); }

  // Swaps all that has arrived into `out` (cleared first). Never waits.
  void Drain(std::vector<Message>& out) EXCLUDES(mu_) {
    out.clear();
    if (!pending_.load(std::memory_order_acquire)) return;
    MutexLock lock(mu_);
    out.swap(messages_);
    pending_.store(false, std::memory_order_relaxed);
  }

  // Waits for a message, or until `deadline` if there is one.
  void Wait(std::optional<TimePoint> deadline) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (messages_.empty()) {
      if (!deadline) {
        arrived_.wait(mu_);
      } else if (arrived_.wait_until(mu_, *deadline) == std::cv_status::timeout) {
        return;
      }
    }
  }

  // Once before the first WaitWith, on the owner's thread.
  Status EnableWaitWith() { return wake_.Open(); }
  // Waits like Wait, but also ends when `descriptor` is readable.
  void WaitWith(int descriptor, std::optional<TimePoint> deadline) EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      if (!messages_.empty()) return;
      waits_with_descriptor_ = true;
    }
    wake_.WaitWith(descriptor, deadline);
    MutexLock lock(mu_);
    waits_with_descriptor_ = false;
  }

 private:
  Mutex mu_;
  ConditionVariable arrived_;
  std::vector<Message> messages_ GUARDED_BY(mu_);
  bool waits_with_descriptor_ GUARDED_BY(mu_) = false;
  MailboxWake wake_;                  // opened before the owner first waits with it, then only rung
  std::atomic<bool> pending_{false};  // acquire/release: lets the owner look without the lock
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_MAILBOX_H_
