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
// is registered stays so, and its pages pinned, until the process ends.
// Threads: any.
class ShownRanges {
 public:
  // `shows` registers the range; its error leaves it as it was. Called under the lock, as `hides`.
  // kUnavailable for a range that could not be given back: there may be other pages by now.
  template <typename Shows>
  Status Show(const std::byte* begin, uint32_t gpu, const Shows& shows) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (const auto found = gpus_.find(begin); found != gpus_.end()) {
      if (found->second.empty()) {
        return Error{ErrorCode::kUnavailable, Reason::kIo,
                     "this memory is still registered for a GPU that does not answer"};
      }
      found->second.insert(gpu);
      return Ok{};
    }
    RETURN_IF_ERROR(shows());
    gpus_[begin].insert(gpu);
    return Ok{};
  }
  // Nothing for a range that this GPU was not shown. `hides` gives the range back.
  template <typename Hides>
  void Hide(const std::byte* begin, uint32_t gpu, const Hides& hides) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const auto found = gpus_.find(begin);
    if (found == gpus_.end() || found->second.erase(gpu) == 0 || !found->second.empty()) return;
    if (hangs_.load()) return;
    const Status hidden = hides();
    if (hidden) gpus_.erase(found);
  }
  // One of them does not answer any more. Waits for nobody who registers.
  void GiveUp() { hangs_.store(true); }

 private:
  std::atomic<bool> hangs_{false};  // a flag alone: nothing is ordered by it
  Mutex mu_;
  // Whose a registered range is, by its begin; nobody's when it could not be given back.
  std::unordered_map<const std::byte*, std::set<uint32_t>> gpus_ GUARDED_BY(mu_);
};

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_SHOWN_RANGES_H_
