#include "tiers/heat_book.h"

#include "base/check.h"

namespace moetier {

HeatBook::HeatBook(const ModelGeometry& geometry) {
  for (const LayerGeometry& layer : geometry.layers) {
    layers_[layer.layer] = {.first = expert_count_, .experts = layer.experts};
    expert_count_ += layer.experts;
  }
  counts_ = DecayedCounts(expert_count_, kHalfLife);
}

void HeatBook::NextRequest() {
  ++requests_;
  if (requests_ % layers_.size() == 0) {
    // What became 0 is as cold as what is nearly so.
    static_cast<void>(counts_.Advance(requests_ / layers_.size()));
  }
}

void HeatBook::Add(LayerIndex layer, ExpertIndex expert, double amount) {
  counts_.Add(IndexOf(layer, expert), amount);
  changed_ = true;
}

void HeatBook::Set(const ModelHeat& heat) {
  counts_ = DecayedCounts(expert_count_, kHalfLife);
  requests_ = 0;
  for (const LayerHeat& layer : heat.layers) {
    for (size_t expert = 0; expert < layer.heat.size(); ++expert) {
      Add(layer.layer, ExpertIndex{static_cast<uint16_t>(expert)}, layer.heat[expert]);
    }
  }
  changed_ = true;
}

double HeatBook::Heat(LayerIndex layer, ExpertIndex expert) const {
  return counts_.Count(IndexOf(layer, expert));
}

ModelHeat HeatBook::Read(uint64_t fingerprint) const {
  ModelHeat heat;
  heat.fingerprint = fingerprint;
  for (const auto& [index, layer] : layers_) {
    LayerHeat& out = heat.layers.emplace_back();
    out.layer = index;
    for (uint32_t i = 0; i < layer.experts; ++i) {
      out.heat.push_back(static_cast<float>(counts_.Count(KeyIndex{layer.first + i})));
    }
  }
  return heat;
}

KeyIndex HeatBook::IndexOf(LayerIndex layer, ExpertIndex expert) const {
  const auto found = layers_.find(layer);
  MOE_CHECK(found != layers_.end() && Raw(expert) < found->second.experts,
            "blk.{} expert {} is none of the model's", Raw(layer), Raw(expert));
  return KeyIndex{found->second.first + Raw(expert)};
}

}  // namespace moetier
