#include "daemon/rpc/admin_worker.h"

#include <pthread.h>

#include <utility>

namespace moetier {

AdminWorker::AdminWorker() : thread_([this] { Loop(); }) {
  pthread_setname_np(thread_.native_handle(), "rpc-admin");
}

Status AdminWorker::Run(std::function<void()> task) {
  {
    const MutexLock lock(mu_);
    if (stopping_) {
      return Error{ErrorCode::kUnavailable, Reason::kDraining, "the daemon is stopping"};
    }
    if (tasks_.size() >= kMaxQueued) {
      return Error{ErrorCode::kExhausted, Reason::kQuota,
                   fmt::format("{} operator calls wait already; try again later", tasks_.size())};
    }
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
  return Ok{};
}

void AdminWorker::Stop() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void AdminWorker::Loop() {
  for (;;) {
    std::function<void()> task;
    {
      const MutexLock lock(mu_);
      while (tasks_.empty() && !stopping_) changed_.wait(mu_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace moetier
