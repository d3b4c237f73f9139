#ifndef MOETIER_DAEMON_SCHEDULING_TURNS_H_
#define MOETIER_DAEMON_SCHEDULING_TURNS_H_

#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace moetier {

// Lets one thread at a time do work that may take minutes, and the others give up waiting for it,
// which they could not with a lock. Threads: any. Lifetime: outlives its turns.
class Turns {
 public:
  // The right to go on; ends with its life.
  class Turn {
   public:
    explicit Turn(Turns& turns) : turns_(&turns) {}
    ~Turn() {
      if (turns_ != nullptr) turns_->Return();
    }
    Turn(Turn&& other) noexcept : turns_(std::exchange(other.turns_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;

   private:
    Turns* turns_;
  };

  // Waits for the turn as long as `keep_waiting`, asked ten times a second, says true.
  std::optional<Turn> Take(const std::function<bool()>& keep_waiting) EXCLUDES(mu_) {
    while (!TakeSoon()) {
      if (!keep_waiting()) return std::nullopt;
    }
    return std::optional<Turn>(std::in_place, *this);
  }

 private:
  bool TakeSoon() EXCLUDES(mu_) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    MutexLock lock(mu_);
    while (taken_) {
      if (freed_.wait_until(mu_, deadline) == std::cv_status::timeout && taken_) return false;
    }
    taken_ = true;
    return true;
  }
  void Return() EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      taken_ = false;
    }
    freed_.notify_one();
  }

  Mutex mu_;
  ConditionVariable freed_;
  bool taken_ GUARDED_BY(mu_) = false;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_TURNS_H_
