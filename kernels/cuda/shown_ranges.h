#ifndef MOETIER_KERNELS_CUDA_SHOWN_RANGES_H_
#define MOETIER_KERNELS_CUDA_SHOWN_RANGES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <unordered_map>

#include "base/mutex.h"
#include "base/result.h"

namespace moetier::kernels::cuda {

// Host memory that GPUs read. CUDA registers a range for the process and refuses it a second time,
// so the first GPU that is shown a range registers it for all, and the last one gives it back.
// While a GPU hangs the driver would wait for it to take a range back: once one was given up, what
// is registered stays so, and its pages pinned, until the process ends. Who was in the driver
// before that waits there, alone.
// Threads: any.
class ShownRanges {
 public:
  // `shows` registers the range; its error leaves it as it was. Called without a lock, as `hides`;
  // who shows or hides the same range meanwhile waits. kUnavailable for a range that could not be
  // given back: there may be other pages by now.
  template <typename Shows>
  Status Show(const std::byte* begin, uint32_t gpu, const Shows& shows) EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      AwaitUnchanging(begin);
      if (const auto found = ranges_.find(begin); found != ranges_.end()) {
        if (found->second.gpus.empty()) {
          return Error{ErrorCode::kUnavailable, Reason::kIo,
                       "this memory is still registered for a GPU that does not answer"};
        }
        found->second.gpus.insert(gpu);
        return Ok{};
      }
      ranges_[begin].changing = true;
    }
    Status shown = shows();
    MutexLock lock(mu_);
    if (shown) {
      ranges_[begin] = {.gpus = {gpu}, .changing = false};
    } else {
      ranges_.erase(begin);
    }
    changed_.notify_all();
    return shown;
  }
  // Nothing for a range that this GPU was not shown. `hides` gives the range back.
  template <typename Hides>
  void Hide(const std::byte* begin, uint32_t gpu, const Hides& hides) EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      const auto found = ranges_.find(begin);
      if (found == ranges_.end() || found->second.gpus.erase(gpu) == 0) return;
      if (!found->second.gpus.empty() || hangs_.load()) return;
      found->second.changing = true;
    }
    const Status hidden = hides();
    MutexLock lock(mu_);
    if (hidden) {
      ranges_.erase(begin);
    } else {
      ranges_[begin].changing = false;
    }
    changed_.notify_all();
  }
  // One of them does not answer any more.
  void GiveUp() { hangs_.store(true); }

 private:
  struct Range {
    std::set<uint32_t> gpus;  // nobody's: it is changing, or could not be given back
    bool changing = false;    // the driver is at it
  };
  void AwaitUnchanging(const std::byte* begin) REQUIRES(mu_) {
    for (auto found = ranges_.find(begin); found != ranges_.end() && found->second.changing;
         found = ranges_.find(begin)) {
      changed_.wait(mu_);
    }
  }

  std::atomic<bool> hangs_{false};  // a flag alone: nothing is ordered by it
  Mutex mu_;
  ConditionVariable changed_;
  std::unordered_map<const std::byte*, Range> ranges_
      GUARDED_BY(mu_);  // registered, by their begin
};

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_SHOWN_RANGES_H_
