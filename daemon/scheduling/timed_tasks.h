#ifndef MOETIER_DAEMON_SCHEDULING_TIMED_TASKS_H_
#define MOETIER_DAEMON_SCHEDULING_TIMED_TASKS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"

namespace moetier {

// Runs tasks when their time has come, one after another, on a thread of its own (`timed-tasks`).
// They may take as long as the disk does; what falls due meanwhile runs after them.
// Threads: any; a task may add others and drop them. Lifetime: the destructor stops.
class TimedTasks {
 public:
  enum class TaskId : uint64_t {};

  TimedTasks();
  ~TimedTasks() { Stop(); }
  TimedTasks(const TimedTasks&) = delete;
  TimedTasks& operator=(const TimedTasks&) = delete;

  // By the host's monotonic clock; a time that has passed means at once.
  TaskId At(TimePoint time, std::function<void()> task) EXCLUDES(mu_);
  // No effect on a task that has begun.
  void Drop(TaskId task) EXCLUDES(mu_);
  // Drops what waits and returns when the task under way has ended. Idempotent; from one thread.
  void Stop() EXCLUDES(mu_);

 private:
  void Loop() EXCLUDES(mu_);

  Mutex mu_;
  ConditionVariable changed_;
  std::map<std::pair<TimePoint, TaskId>, std::function<void()>> tasks_ GUARDED_BY(mu_);
  uint64_t last_id_ GUARDED_BY(mu_) = 0;
  bool stopping_ GUARDED_BY(mu_) = false;
  std::jthread thread_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_TIMED_TASKS_H_
