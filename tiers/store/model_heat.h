#ifndef MOETIER_TIERS_STORE_MODEL_HEAT_H_
#define MOETIER_TIERS_STORE_MODEL_HEAT_H_

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tiers/store/model_geometry.h"

namespace moetier {

struct LayerHeat {
  LayerIndex layer{};
  std::vector<float> heat;  // one an expert: its uses, older ones counting for less
  friend bool operator==(const LayerHeat&, const LayerHeat&) = default;
};

// How often each expert of a model is used. A value; it names the model by its fingerprint, since
// it outlives every load of it.
struct ModelHeat {
  uint64_t fingerprint = 0;
  std::vector<LayerHeat> layers;  // ascending
  friend bool operator==(const ModelHeat&, const ModelHeat&) = default;
};

// Whether it names each of the model's layers once, in ascending order, with one finite heat of at
// least 0 for each expert. kInvalidArgument, kBadShape with the numbers of both. The fingerprint is
// not looked at.
Status CheckHeat(const ModelHeat& heat, const ModelGeometry& geometry);

// The experts that have any heat, the hottest first; equals in the order of their keys.
std::vector<ExpertKey> HottestFirst(const ModelHeat& heat, ModelId model);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_MODEL_HEAT_H_
