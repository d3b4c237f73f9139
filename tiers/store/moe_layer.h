#ifndef MOETIER_TIERS_STORE_MOE_LAYER_H_
#define MOETIER_TIERS_STORE_MOE_LAYER_H_

#include <array>
#include <cstdint>

#include "base/result.h"
#include "kernels/expert_shape.h"
#include "tiers/store/expert_names.h"
#include "tiers/store/moe_model.h"

namespace moetier {

// The tensors of one block by role; nullptr where it has none.
struct LayerTensors {
  std::array<const GgufTensor*, kLayerRoles> tensors{};
  [[nodiscard]] const GgufTensor* at(TensorRole role) const {
    return tensors[static_cast<size_t>(role)];
  }
  [[nodiscard]] bool has(TensorRole role) const { return at(role) != nullptr; }
};

struct MoeLayer {
  LayerGeometry geometry;  // size_class is set later
  MoeLayerSource source;
};

// Checks that the tensors of block `layer` make one MoE layer: which are there, every shape and
// type. The errors are those of ReadMoeModel.
Result<MoeLayer> MakeMoeLayer(uint32_t layer, const LayerTensors& tensors,
                              kernels::Activation activation, kernels::RecordForm form);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_MOE_LAYER_H_
