#include "daemon/stop_limit.h"

#include <pthread.h>

#include <utility>

namespace moetier {

StopLimit::StopLimit(std::chrono::milliseconds limit, std::function<void()> late)
    : thread_([this, end = std::chrono::steady_clock::now() + limit, late = std::move(late)] {
        pthread_setname_np(pthread_self(), "stop-limit");
        {
          MutexLock lock(mu_);
          while (!over_) {
            if (changed_.wait_until(mu_, end) == std::cv_status::timeout) break;
          }
          if (over_) return;
        }
        late();
      }) {}

StopLimit::~StopLimit() {
  {
    MutexLock lock(mu_);
    over_ = true;
  }
  changed_.notify_all();
}

}  // namespace moetier
