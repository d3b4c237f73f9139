#ifndef MOETIER_DAEMON_FASTLANE_JOB_THREAD_H_
#define MOETIER_DAEMON_FASTLANE_JOB_THREAD_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace moetier {

// A thread that runs jobs one after another, in the order in which they came.
// Threads:  Add from any; Stop from the owner's. Lifetime: Stop and the destructor drop what waits
//           and wait for the job that runs.
class JobThread {
 public:
  JobThread(const char* name, size_t max_waiting);
  ~JobThread() { Stop(); }

  // False when `max_waiting` jobs wait, or after Stop.
  [[nodiscard]] bool Add(std::function<void()> job) EXCLUDES(mu_);
  void Stop() EXCLUDES(mu_);

 private:
  void Loop() EXCLUDES(mu_);

  const size_t max_waiting_;
  Mutex mu_;
  ConditionVariable changed_;
  std::deque<std::function<void()>> jobs_ GUARDED_BY(mu_);
  bool stopping_ GUARDED_BY(mu_) = false;
  std::jthread thread_;  // the last member: it uses all others
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_FASTLANE_JOB_THREAD_H_
