#include "tiers/store/model_heat.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace moetier {
namespace {

Error BadShape(std::string message) {
  return Error{ErrorCode::kInvalidArgument, Reason::kBadShape, std::move(message)};
}

}  // namespace

Status CheckHeat(const ModelHeat& heat, const ModelGeometry& geometry) {
  if (heat.layers.size() != geometry.layers.size()) {
    return BadShape(fmt::format("the heat has {} layers, the model has {} with experts",
                                heat.layers.size(), geometry.layers.size()));
  }
  for (size_t i = 0; i < heat.layers.size(); ++i) {
    const LayerHeat& given = heat.layers[i];
    const LayerGeometry& layer = geometry.layers[i];
    if (given.layer != layer.layer) {
      return BadShape(fmt::format("the heat's layer number {} is blk.{}, the model's is blk.{}", i,
                                  Raw(given.layer), Raw(layer.layer)));
    }
    if (given.heat.size() != layer.experts) {
      return BadShape(fmt::format("blk.{}: the heat has {} experts, the model has {}",
                                  Raw(given.layer), given.heat.size(), layer.experts));
    }
    for (size_t expert = 0; expert < given.heat.size(); ++expert) {
      const float value = given.heat[expert];
      if (std::isfinite(value) && value >= 0) continue;
      return BadShape(fmt::format("blk.{} expert {}: a heat of {}; it is finite and at least 0",
                                  Raw(given.layer), expert, value));
    }
  }
  return Ok{};
}

std::vector<ExpertKey> HottestFirst(const ModelHeat& heat, ModelId model) {
  std::vector<std::pair<float, ExpertKey>> hot;
  for (const LayerHeat& layer : heat.layers) {
    for (size_t expert = 0; expert < layer.heat.size(); ++expert) {
      if (layer.heat[expert] <= 0) continue;
      hot.push_back(
          {layer.heat[expert], {model, layer.layer, ExpertIndex{static_cast<uint16_t>(expert)}}});
    }
  }
  std::sort(hot.begin(), hot.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<ExpertKey> keys;
  keys.reserve(hot.size());
  for (const auto& [value, key] : hot) keys.push_back(key);
  return keys;
}

}  // namespace moetier
