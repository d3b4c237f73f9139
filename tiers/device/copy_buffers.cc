#include "tiers/device/copy_buffers.h"

#include <bit>
#include <utility>

#include "base/check.h"

namespace moetier {

Status CopyBuffers::Grow(size_t bytes) {
  {
    MutexLock lock(mu_);
    if (bytes <= bytes_) return Ok{};
  }
  // Without the lock: copies under way do not wait for a driver that takes long.
  const size_t larger = std::bit_ceil(bytes);
  ASSIGN_OR_RETURN(GpuBlock block, GpuBlock::Allocate(gpu_, GpuMemory::kOfHost, larger * places_));
  MutexLock lock(mu_);
  if (larger <= bytes_) return Ok{};  // somebody else's is as large
  blocks_.push_back(std::move(block));
  bytes_ = larger;
  return Ok{};
}

std::byte* CopyBuffers::At(uint32_t place, size_t bytes) const {
  MutexLock lock(mu_);
  MOE_CHECK(place < places_ && bytes <= bytes_, "a copy of {} bytes in place {}", bytes, place);
  return blocks_.back().data() + place * bytes_;
}

}  // namespace moetier
