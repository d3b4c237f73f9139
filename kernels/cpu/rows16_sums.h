#ifndef MOETIER_KERNELS_CPU_ROWS16_SUMS_H_
#define MOETIER_KERNELS_CPU_ROWS16_SUMS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/rows16_formats.h"

namespace moetier::kernels {
namespace {

// The four running sums of each (row, token); see "Arithmetic" in ARCHITECTURE.md.
template <class V, int kTokens>
class Sums {
 public:
  using Float = typename V::Float;

  MOETIER_ALWAYS_INLINE void Clear() {
    for (auto& split : sums_) {
      for (auto& part : split) {
        for (Float& sum : part) sum = V::FloatZero();
      }
    }
  }

  // The sum that step `index` adds to.
  MOETIER_ALWAYS_INLINE Float& At(uint32_t index, int part, int t) {
    return sums_[index % 4][part][t];
  }

  // Row r, token t to out[t * stride + r].
  MOETIER_ALWAYS_INLINE void Write(float* out, size_t stride) const {
    for (int part = 0; part < V::kParts; ++part) {
      for (size_t t = 0; t < kTokens; ++t) {
        V::Store(out + stride * t + V::kRows * part,
                 V::Add(V::Add(sums_[0][part][t], sums_[1][part][t]),
                        V::Add(sums_[2][part][t], sums_[3][part][t])));
      }
    }
  }

 private:
  Float sums_[4][V::kParts][kTokens];
};

}  // namespace
}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_CPU_ROWS16_SUMS_H_
