#ifndef MOETIER_KERNELS_CUDA_SHOWN_RANGES_H_
#define MOETIER_KERNELS_CUDA_SHOWN_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "base/mutex.h"
#include "base/result.h"

namespace moetier::kernels::cuda {

// Host memory that GPUs read. CUDA registers a range for the process and refuses it a second time,
// so the first GPU that is shown a range registers it for all, and the last one gives it back.
// Threads: any.
class ShownRanges {
 public:
  // `shows` registers the range; its error leaves it as it was. Called under the lock.
  template <typename Shows>
  Status Show(const std::byte* begin, const Shows& shows) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (const auto found = users_.find(begin); found != users_.end()) {
      ++found->second;
      return Ok{};
    }
    RETURN_IF_ERROR(shows());
    users_.emplace(begin, 1);
    return Ok{};
  }
  // Nothing for a range that is not shown. `hides` gives the range back.
  template <typename Hides>
  void Hide(const std::byte* begin, const Hides& hides) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const auto found = users_.find(begin);
    if (found == users_.end() || --found->second > 0) return;
    users_.erase(found);
    hides();
  }

 private:
  Mutex mu_;
  std::unordered_map<const std::byte*, uint32_t> users_ GUARDED_BY(mu_);  // GPUs, by its begin
};

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_SHOWN_RANGES_H_
