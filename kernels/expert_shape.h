#ifndef MOETIER_KERNELS_EXPERT_SHAPE_H_
#define MOETIER_KERNELS_EXPERT_SHAPE_H_

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/weight_type.h"

namespace moetier::kernels {

// One expert's feed-forward network: y = down(act(gate(x) + bg, up(x) + bu)) + bd.
// gate and up are [ffn, hidden], down is [hidden, ffn], row-major as in GGUF; biases are f32.
struct ExpertShape {
  uint32_t hidden = 0;
  uint32_t ffn = 0;
  Activation activation = Activation::kSwiGlu;
  WeightType gate = WeightType::kF32;
  WeightType up = WeightType::kF32;
  WeightType down = WeightType::kF32;
  bool gate_bias = false;
  bool up_bias = false;
  bool down_bias = false;
  friend bool operator==(const ExpertShape&, const ExpertShape&) = default;
};

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_EXPERT_SHAPE_H_
