#ifndef MOETIER_TESTS_UNIT_CUDA_LAYER_CHECK_H_
#define MOETIER_TESTS_UNIT_CUDA_LAYER_CHECK_H_

#include <cstdint>
#include <vector>

#include "kernels/expert_shape.h"
#include "tests/unit/cuda/layer_call.h"
#include "tests/unit/kernels/random_expert.h"

// A layer's call on a device against kernels/reference, to the bit.

namespace moetier::kernels::cuda {

// Gate, up and down of one type.
ExpertShape ShapeOf(WeightType type, uint32_t hidden, uint32_t ffn);

// Whether the type's block has 256 weights.
bool IsSuper(WeightType type);

// Each pick and each row's sum equals the reference to the bit.
void CheckLayer(const Way& way, const std::vector<RandomExpert>& experts, const Rows& inputs,
                const std::vector<Pick>& picks);

// All rows pick one expert.
void CheckExpert(const Way& way, const ExpertShape& shape, BlockKind kind, const Rows& inputs);

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_TESTS_UNIT_CUDA_LAYER_CHECK_H_
