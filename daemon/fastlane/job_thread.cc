#include "daemon/fastlane/job_thread.h"

#include <pthread.h>

#include <utility>

namespace moetier {

JobThread::JobThread(const char* name, size_t max_waiting)
    : max_waiting_(max_waiting), thread_([this, name] {
        pthread_setname_np(pthread_self(), name);
        Loop();
      }) {}

bool JobThread::Add(std::function<void()> job) {
  const MutexLock lock(mu_);
  if (stopping_ || jobs_.size() >= max_waiting_) return false;
  jobs_.push_back(std::move(job));
  changed_.notify_one();
  return true;
}

void JobThread::Stop() {
  std::deque<std::function<void()>> dropped;  // their ends may take time: not under the lock
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    dropped.swap(jobs_);
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void JobThread::Loop() {
  for (;;) {
    std::function<void()> job;
    {
      const MutexLock lock(mu_);
      while (jobs_.empty() && !stopping_) changed_.wait(mu_);
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace moetier
