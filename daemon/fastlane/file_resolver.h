#ifndef MOETIER_DAEMON_FASTLANE_FILE_RESOLVER_H_
#define MOETIER_DAEMON_FASTLANE_FILE_RESOLVER_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "daemon/fastlane/job_thread.h"
#include "daemon/scheduling/resolved_files.h"

namespace moetier {

// Runs a ModelResolver for clients, and the loads that it asks for: one client's files after
// another's on "fastlane-files", one load after another on "fastlane-loads", so that a load of
// minutes keeps no client waiting whose model serves.
// Threads:  Resolve from any; `done` runs on one of the two.
// Lifetime: Stop and the destructor ask what runs to stop and drop what waits.
class FileResolver {
 public:
  // Shared by the resolver and whoever waits, who clears it to give up.
  using Wanted = std::shared_ptr<std::atomic<bool>>;
  using Done = std::function<void(Result<ModelInfo>)>;

  explicit FileResolver(ModelResolver resolve) : resolve_(std::move(resolve)) {}
  ~FileResolver() { Stop(); }

  // kExhausted, kQuota when too many clients or files wait; kUnavailable, kDraining after Stop. A
  // load for which there is no room is told to `done` alike.
  Status Resolve(std::vector<UniqueFd> files, Wanted wanted, Done done);
  void Stop();

  static constexpr size_t kMaxWaiting = 16;  // clients, on each thread
  // Descriptors of clients that wait or whose model loads: two of the most shards.
  static constexpr size_t kMaxWaitingFiles = 128;

 private:
  struct Job {
    std::shared_ptr<const void> counted;  // in waiting_files_ while it lives
    Wanted wanted;
    Done done;
  };

  [[nodiscard]] bool GoesOn(const Job& job) const {
    return job.wanted->load() && !stopping_.load();
  }
  std::shared_ptr<const void> CountFiles(size_t count);
  void Identify(const std::shared_ptr<Job>& job, std::vector<UniqueFd> files);
  void Load(const Job& job,
            const std::function<Result<ModelInfo>(const ProgressListener&)>& load) const;

  const ModelResolver resolve_;
  std::atomic<bool> stopping_{false};     // read in the middle of a load
  std::atomic<size_t> waiting_files_{0};  // a count and no more: relaxed order suffices
  JobThread loads_{"fastlane-loads", kMaxWaiting};
  JobThread files_{"fastlane-files", kMaxWaiting};  // hands to loads_, so it ends first
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_FASTLANE_FILE_RESOLVER_H_
