#include "daemon/rpc/admin_worker.h"

#include <pthread.h>

#include <utility>

namespace moetier {
namespace {

Error Stopping() { return {ErrorCode::kUnavailable, Reason::kDraining, "the daemon is stopping"}; }

}  // namespace

AdminWorker::AdminWorker(std::string name) : name_(std::move(name)), thread_([this] { Loop(); }) {
  pthread_setname_np(thread_.native_handle(), name_.c_str());
}

Status AdminWorker::Run(Task task) {
  {
    const MutexLock lock(mu_);
    if (stopping_) return Stopping();
    if (tasks_.size() >= kMaxQueued) {
      return Error{
          ErrorCode::kExhausted, Reason::kQuota,
          fmt::format("{} calls wait for {} already; try again later", tasks_.size(), name_)};
    }
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
  return Ok{};
}

void AdminWorker::BeginStop() {
  std::deque<Task> refused;
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    refused.swap(tasks_);
  }
  changed_.notify_one();
  for (const Task& task : refused) task(Stopping());
}

void AdminWorker::Stop() {
  BeginStop();
  if (thread_.joinable()) thread_.join();
}

void AdminWorker::Loop() {
  for (;;) {
    Task task;
    {
      const MutexLock lock(mu_);
      while (tasks_.empty() && !stopping_) changed_.wait(mu_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task(Ok{});
  }
}

}  // namespace moetier
