#ifndef MOETIER_KERNELS_REFERENCE_REFERENCE_EXPERT_H_
#define MOETIER_KERNELS_REFERENCE_REFERENCE_EXPERT_H_

#include <span>

#include "kernels/activation_rows.h"
#include "kernels/expert_shape.h"
#include "kernels/layout.h"

// The definition of the arithmetic: slow, obvious, on GGUF's own blocks. Every kernel equals it to
// the bit.

namespace moetier::kernels {

// Exact weights of one row as f32 (Q6_K rounds once). `row` has RowBytes(type, out.size()).
void DequantiseRow(WeightType type, std::span<const std::byte> row, std::span<float> out);

// The canonical dot of one row in GGUF blocks with one prepared activation row.
float ReferenceDot(WeightType type, std::span<const std::byte> row, uint32_t columns,
                   const ActivationRow& x);

// act(g, u) of one value; the one exp polynomial.
float ReferenceActivation(Activation activation, float gate, float up);

// One expert on one hidden row; out has shape.hidden values, no router weight applied.
void ReferenceExpert(const ExpertShape& shape, const SourceExpert& source,
                     std::span<const float> hidden, std::span<float> out);

// The same in double on dequantised weights and unquantised activations: what errors are measured
// against.
void DoubleExpert(const ExpertShape& shape, const SourceExpert& source,
                  std::span<const float> hidden, std::span<double> out);

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_REFERENCE_REFERENCE_EXPERT_H_
