#include "kernels/cuda/simt/async_copies.h"

#include <cstring>

#include "kernels/cuda/simt/sanitizers.h"

namespace moetier::simt {

void AsyncCopies::Add(void* to, const void* from, size_t bytes) {
  const Quiet quiet;
  copies_.push_back({to, from, bytes, group_});
}

void AsyncCopies::Commit() {
  const Quiet quiet;
  ++group_;
}

void AsyncCopies::Wait(unsigned groups_left) {
  while (!copies_.empty() && copies_.front().group + groups_left < group_) LandOne();
}

void AsyncCopies::LandOne() {
  Copy copy;
  {
    const Quiet quiet;
    copy = copies_.front();
    copies_.erase(copies_.begin());
  }
  Land(copy);
}

// Seen by the sanitizers as the CUDA thread's own access.
void AsyncCopies::Land(const Copy& copy) { std::memcpy(copy.to, copy.from, copy.bytes); }

void AsyncCopies::Clear() {
  copies_.clear();
  group_ = 0;
}

}  // namespace moetier::simt
