#ifndef MOETIER_KERNELS_CPU_ROWS16_SUMS_H_
#define MOETIER_KERNELS_CPU_ROWS16_SUMS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/rows16_formats.h"

namespace moetier::kernels {
namespace {

// The four running sums of each (row, token); see "Arithmetic" in ARCHITECTURE.md.
template <class V, int kGroups, int kTokens>
class Sums {
 public:
  using Float = typename V::Float;

  MOETIER_ALWAYS_INLINE void Clear() {
    for (auto& split : sums_) {
      for (auto& part : split) {
        for (auto& group : part) {
          for (Float& sum : group) sum = V::FloatZero();
        }
      }
    }
  }

  // The sum that step `index` adds to.
  MOETIER_ALWAYS_INLINE Float& At(uint32_t index, int part, int g, int t) {
    return sums_[index % 4][part][g][t];
  }

  // Row r of group g, token t to out[t * stride + 16 * g + r].
  MOETIER_ALWAYS_INLINE void Write(float* out, size_t stride) const {
    for (int part = 0; part < V::kParts; ++part) {
      for (int g = 0; g < kGroups; ++g) {
        for (size_t t = 0; t < kTokens; ++t) {
          V::Store(out + stride * t + 16 * g + V::kRows * part,
                   V::Add(V::Add(sums_[0][part][g][t], sums_[1][part][g][t]),
                          V::Add(sums_[2][part][g][t], sums_[3][part][g][t])));
        }
      }
    }
  }

 private:
  Float sums_[4][V::kParts][kGroups][kTokens];
};

}  // namespace
}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_CPU_ROWS16_SUMS_H_
