#ifndef MOETIER_KERNELS_CPU_ELEMENTWISE_H_
#define MOETIER_KERNELS_CPU_ELEMENTWISE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/expert_shape.h"

// The element-by-element steps around the dots. One source, compiled twice: for processors with
// AVX2 and FMA, where it vectorises, and for any other, where each fma may be a call of the C
// library. Both give the same bits. Internal to kernels.

namespace moetier::kernels {

inline constexpr uint32_t kActivateWidth = 32;

// What a block of 32 activations has beside its codes (kernels/activation_rows.h has the rule).
struct QuantisedBlock {
  float scale;
  float scaled_sum;
  std::array<int32_t, 2> half_sums;
};

enum class ElementwiseCode : uint8_t { kPortable, kAvx2 };
// What this host runs fastest.
ElementwiseCode BestElementwiseCode();

// 32 values to 32 codes.
QuantisedBlock QuantiseBlock(ElementwiseCode code, const float* values, int8_t* codes);

// h[i] = act(gate[i], up[i]) for kActivateWidth values.
void Activate(ElementwiseCode code, Activation activation, const float* gate, const float* up,
              float* h);

// out[i] = fma(weight, y[i], out[i]); a NaN is written as 0x7FC00000.
void AddScaled(ElementwiseCode code, float weight, const float* y, float* out, size_t count);

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_CPU_ELEMENTWISE_H_
