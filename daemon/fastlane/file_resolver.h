#ifndef MOETIER_DAEMON_FASTLANE_FILE_RESOLVER_H_
#define MOETIER_DAEMON_FASTLANE_FILE_RESOLVER_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "daemon/scheduling/daemon_core.h"

namespace moetier {

// From the descriptors of a model's files to a model that serves. May load it, which takes as long
// as the disk does; stops with kCancelled when the listener says kNo.
using ModelResolver =
    std::function<Result<ModelInfo>(std::vector<UniqueFd> files, const ProgressListener& listener)>;

// Runs a ModelResolver on a thread of its own ("fastlane-files"), one client's files after
// another's. Threads:  Resolve from any; `done` runs on the resolver's thread. Lifetime: Stop and
// the destructor ask the resolver to stop and drop what waits.
class FileResolver {
 public:
  // Shared by the resolver and whoever waits, who clears it to give up.
  using Wanted = std::shared_ptr<std::atomic<bool>>;
  using Done = std::function<void(Result<ModelInfo>)>;

  explicit FileResolver(ModelResolver resolve);
  ~FileResolver() { Stop(); }

  // kExhausted, kQuota when kMaxWaiting clients wait; kUnavailable, kDraining after Stop.
  Status Resolve(std::vector<UniqueFd> files, Wanted wanted, Done done) EXCLUDES(mu_);
  void Stop() EXCLUDES(mu_);

  static constexpr size_t kMaxWaiting = 16;

 private:
  struct Job {
    std::vector<UniqueFd> files;
    Wanted wanted;
    Done done;
  };
  void Loop() EXCLUDES(mu_);

  const ModelResolver resolve_;
  std::atomic<bool> stopping_{false};  // read by the listener in the middle of a load
  Mutex mu_;
  ConditionVariable changed_;
  std::deque<Job> jobs_ GUARDED_BY(mu_);
  std::jthread thread_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_FASTLANE_FILE_RESOLVER_H_
