#ifndef MOETIER_TIERS_DEVICE_COPY_BUFFERS_H_
#define MOETIER_TIERS_DEVICE_COPY_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "tiers/device/gpu_block.h"

namespace moetier {

// Pinned memory of the host where records land that come out of a GPU, before the host copies them
// on: what a GPU that hangs may still write lies there, and the slot that the record was for can be
// somebody else's.
// Threads:  any.
// Lifetime: the GPU outlives it.
class CopyBuffers {
 public:
  CopyBuffers(kernels::cuda::Gpu& gpu, uint32_t places) : gpu_(gpu), places_(places) {}

  // Each place has so many bytes at least from now on, in whole powers of two. The GPU's error
  // leaves it as it was.
  Status Grow(size_t bytes) EXCLUDES(mu_);
  // The memory of a place, which stays, as long as this does, when others grow.
  [[nodiscard]] std::byte* At(uint32_t place, size_t bytes) const EXCLUDES(mu_);

 private:
  kernels::cuda::Gpu& gpu_;
  const uint32_t places_;
  mutable Mutex mu_;
  std::vector<GpuBlock> blocks_ GUARDED_BY(mu_);  // the last one has the places
  size_t bytes_ GUARDED_BY(mu_) = 0;              // of a place
};

}  // namespace moetier

#endif  // MOETIER_TIERS_DEVICE_COPY_BUFFERS_H_
