#ifndef MOETIER_TIERS_HEAT_BOOK_H_
#define MOETIER_TIERS_HEAT_BOOK_H_

#include <cstdint>
#include <map>

#include "base/ids.h"
#include "tiers/decayed_counts.h"
#include "tiers/store/model_geometry.h"
#include "tiers/store/model_heat.h"

namespace moetier {

// How often each expert of one loaded model is used, whatever its eviction policy is. It is kept
// over restarts, so it forgets slowly: heat halves every kHalfLife tokens, some conversations.
// Threads: its owner's. Memory: all taken at creation.
class HeatBook {
 public:
  static constexpr uint32_t kHalfLife = 4096;

  // The geometry's layers and experts are all that may be added to.
  explicit HeatBook(const ModelGeometry& geometry);

  // A request of a layer begins: as many of them as the model has layers are one token.
  void NextRequest();
  // `amount`: 1 for a use by one token; a request adds top_k in sum over its experts.
  void Add(LayerIndex layer, ExpertIndex expert, double amount);
  // Forgets all and starts from `heat`, which CheckHeat has passed. It decays from now on.
  void Set(const ModelHeat& heat);

  [[nodiscard]] double Heat(LayerIndex layer, ExpertIndex expert) const;
  [[nodiscard]] ModelHeat Read(uint64_t fingerprint) const;
  // Whether anything was added or set since the last NoteSaved.
  [[nodiscard]] bool changed() const { return changed_; }
  void NoteSaved() { changed_ = false; }

 private:
  struct Layer {
    uint32_t first = 0;  // of its counts
    uint32_t experts = 0;
  };
  [[nodiscard]] KeyIndex IndexOf(LayerIndex layer, ExpertIndex expert) const;

  std::map<LayerIndex, Layer> layers_;
  uint32_t expert_count_ = 0;
  DecayedCounts counts_{0, kHalfLife};
  uint64_t requests_ = 0;
  bool changed_ = false;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_HEAT_BOOK_H_
