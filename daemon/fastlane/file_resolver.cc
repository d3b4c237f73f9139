#include "daemon/fastlane/file_resolver.h"

#include <pthread.h>

#include <utility>

namespace moetier {

FileResolver::FileResolver(ModelResolver resolve)
    : resolve_(std::move(resolve)), thread_([this] {
        pthread_setname_np(pthread_self(), "fastlane-files");
        Loop();
      }) {}

Status FileResolver::Resolve(std::vector<UniqueFd> files, Wanted wanted, Done done) {
  const MutexLock lock(mu_);
  if (stopping_.load()) {
    return Error{ErrorCode::kUnavailable, Reason::kDraining, "the daemon is stopping"};
  }
  if (jobs_.size() >= kMaxWaiting) {
    return Error{ErrorCode::kExhausted, Reason::kQuota,
                 fmt::format("{} clients wait for their model's files to be read; try again later",
                             jobs_.size())};
  }
  jobs_.push_back(
      {.files = std::move(files), .wanted = std::move(wanted), .done = std::move(done)});
  changed_.notify_one();
  return Ok{};
}

void FileResolver::Stop() {
  {
    const MutexLock lock(mu_);
    stopping_.store(true);
    jobs_.clear();
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void FileResolver::Loop() {
  for (;;) {
    Job job;
    {
      const MutexLock lock(mu_);
      while (jobs_.empty() && !stopping_.load()) changed_.wait(mu_);
      if (stopping_.load()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    if (!job.wanted->load()) continue;
    job.done(resolve_(std::move(job.files), [&](const ModelProgress& /*progress*/) {
      return job.wanted->load() && !stopping_.load() ? GoOn::kYes : GoOn::kNo;
    }));
  }
}

}  // namespace moetier
