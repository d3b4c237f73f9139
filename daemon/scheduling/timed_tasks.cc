#include "daemon/scheduling/timed_tasks.h"

#include <pthread.h>

#include <chrono>

namespace moetier {

TimedTasks::TimedTasks()
    : thread_([this] {
        pthread_setname_np(pthread_self(), "timed-tasks");
        Loop();
      }) {}

TimedTasks::TaskId TimedTasks::At(TimePoint time, std::function<void()> task) {
  TaskId id{};
  {
    MutexLock lock(mu_);
    id = TaskId{++last_id_};
    tasks_.emplace(std::pair(time, id), std::move(task));
  }
  changed_.notify_one();
  return id;
}

void TimedTasks::Drop(TaskId task) {
  MutexLock lock(mu_);
  std::erase_if(tasks_, [task](const auto& entry) { return entry.first.second == task; });
}

void TimedTasks::Stop() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    tasks_.clear();
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void TimedTasks::Loop() {
  while (true) {
    std::function<void()> due;
    {
      MutexLock lock(mu_);
      while (!stopping_ && !due) {
        if (tasks_.empty()) {
          changed_.wait(mu_);
          continue;
        }
        const auto first = tasks_.begin();
        const TimePoint time = first->first.first;
        if (time <= std::chrono::steady_clock::now()) {
          due = std::move(first->second);
          tasks_.erase(first);
        } else {
          changed_.wait_until(mu_, time);
        }
      }
      if (stopping_) return;
    }
    due();
  }
}

}  // namespace moetier
