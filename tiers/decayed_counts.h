#ifndef MOETIER_TIERS_DECAYED_COUNTS_H_
#define MOETIER_TIERS_DECAYED_COUNTS_H_

#include <cstdint>
#include <vector>

#include "tiers/eviction_policy.h"

namespace moetier {

// A count for each key that halves every `half_life` steps, never if 0. All counts decay at one
// pace, so two keys change places only when one of them is added to: what is kept is the count
// times 2^(steps since an epoch / half_life), which no passing of time changes.
class DecayedCounts {
 public:
  DecayedCounts(uint32_t key_count, uint32_t half_life)
      : half_life_(half_life), weights_(key_count) {}

  // Steps never fall. True when all weights were scaled down, which may have made unequal ones
  // equal: what has been untouched for some 500 half lives is 0.
  [[nodiscard]] bool Advance(uint64_t step);
  void Add(KeyIndex key, double amount) { weights_[Raw(key)] += amount * scale_; }

  // The count of this moment.
  [[nodiscard]] double Count(KeyIndex key) const { return weights_[Raw(key)] / scale_; }
  // What orders the keys as their counts do, and costs no division.
  [[nodiscard]] double Weight(KeyIndex key) const { return weights_[Raw(key)]; }

 private:
  uint32_t half_life_;
  uint64_t epoch_ = 0;
  uint64_t step_ = 0;
  double scale_ = 1;  // 2^((step_ - epoch_) / half_life_)
  std::vector<double> weights_;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_DECAYED_COUNTS_H_
