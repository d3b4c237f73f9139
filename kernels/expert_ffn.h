#ifndef MOETIER_KERNELS_EXPERT_FFN_H_
#define MOETIER_KERNELS_EXPERT_FFN_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/activation_rows.h"
#include "kernels/expert_kernels.h"
#include "kernels/expert_shape.h"
#include "kernels/layout.h"

namespace moetier::kernels {

// An expert ready to compute.
struct ExpertView {
  const ExpertShape* shape;
  const RecordLayout* layout;
  const std::byte* record;
};

// The two phases of one expert over up to kMaxTokens rows, in units that workers claim.
// Phase 1, unit u: h[t][32u .. 32u+32) = act(gate, up), stored and quantised into `h`.
// Phase 2, unit u: y[t][32u .. 32u+32) = down(h), without the router weight.
// Every unit of phase 1 of an expert must be done before a unit of phase 2 reads `h`.
uint32_t GateUpUnits(const ExpertShape& shape);
uint32_t DownUnits(const ExpertShape& shape);
void RunGateUpUnit(const ExpertKernels& kernels, const ExpertView& expert,
                   std::span<const ActivationRow> tokens, uint32_t unit, ActivationRows& h,
                   uint32_t first_h_row);
void RunDownUnit(const ExpertKernels& kernels, const ExpertView& expert,
                 std::span<const ActivationRow> h, uint32_t unit, std::span<float* const> y);

// out = fma(weight, y, out) over `out.size()` values; picks are added in the request's order from
// +0. A NaN is written as one quiet pattern (0x7FC00000) so that results can be compared.
void AddWeighted(std::span<float> out, float weight, std::span<const float> y);
void CanonicaliseNan(std::span<float> out);

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_EXPERT_FFN_H_
