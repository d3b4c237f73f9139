#ifndef MOETIER_KERNELS_CPU_ROWS16_PREFETCH_H_
#define MOETIER_KERNELS_CPU_ROWS16_PREFETCH_H_

#include <cstdint>

#include "kernels/cpu/rows16_formats.h"

namespace moetier::kernels {
namespace {

// Asks for the lines of kGroups ascending streams 4 KiB before they are read (2 KiB measured less,
// 6 to 8 KiB mixed; other hints no better). Inline assembly, since gcc 12 drops `_mm_prefetch` from
// small inline functions without a word.
template <int kGroups>
class Ahead {
 public:
  MOETIER_ALWAYS_INLINE void Enable(bool enabled) { enabled_ = enabled; }

  // Stream g reads `bytes` from `first`; the next group lies `stride` further on.
  MOETIER_ALWAYS_INLINE void SetStream(int g, const uint8_t* first, uint64_t stride,
                                       uint64_t bytes) {
    end_[g] = reinterpret_cast<uintptr_t>(first) + bytes - kDistance;
    // The bytes behind a stream's end belong to its neighbour, which has them already; the stream
    // goes on kGroups - 1 groups later. Where other groups lie between, what follows is unknown.
    jump_ = bytes == stride ? (kGroups - 1) * stride : 0;
  }

  // Asks for as many bytes as are about to be read from `at`.
  template <int kBytes>
  MOETIER_ALWAYS_INLINE void Ask(int g, const uint8_t* at) const {
    if (enabled_) {
      uintptr_t from = reinterpret_cast<uintptr_t>(at);
      if constexpr (kGroups > 1) {
        from += from >= end_[g] ? jump_ : 0;
      }
      Unroll<kBytes / 64>([&]<int kLine>() MOETIER_INLINE_LAMBDA { AskLine<kLine>(from); });
    }
  }

 private:
  static constexpr int kDistance = 4096;

  template <int kLine>
  static MOETIER_ALWAYS_INLINE void AskLine(uintptr_t from) {
    asm volatile("prefetcht0 %c1(%0)" : : "r"(from), "i"(kDistance + 64 * kLine));
  }

  bool enabled_;
  uintptr_t end_[kGroups];
  uint64_t jump_;
};

}  // namespace
}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_CPU_ROWS16_PREFETCH_H_
