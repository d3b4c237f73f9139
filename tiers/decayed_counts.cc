#include "tiers/decayed_counts.h"

#include <algorithm>
#include <cmath>

namespace moetier {

bool DecayedCounts::Advance(uint64_t step) {
  if (half_life_ == 0 || step == step_) return false;
  // 512: half of a double's exponents above 1, so that the sums of 2^500 uses still fit.
  constexpr uint64_t kMostHalvings = 512;
  step_ = step;
  const uint64_t halvings = (step - epoch_) / half_life_;
  const bool scaled = halvings >= kMostHalvings;
  if (scaled) {
    epoch_ += halvings * half_life_;
    const int exponent = -static_cast<int>(std::min<uint64_t>(halvings, 4 * kMostHalvings));
    for (double& weight : weights_) weight = std::ldexp(weight, exponent);
  }
  scale_ = std::exp2(static_cast<double>(step_ - epoch_) / half_life_);
  return scaled;
}

}  // namespace moetier
