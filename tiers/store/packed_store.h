#ifndef MOETIER_TIERS_STORE_PACKED_STORE_H_
#define MOETIER_TIERS_STORE_PACKED_STORE_H_

#include <memory>
#include <string>

#include "tiers/store/indexed_store.h"

namespace moetier {

// One record an expert, as kernels read it: a read lands it, nothing is left to do.
class PackedStore final : public IndexedStore {
 public:
  // kDataLoss, kBadStore when a data file is missing or shorter than the index says.
  static Result<std::unique_ptr<ExpertStore>> Open(StoreIndex index, const std::string& directory,
                                                   FileSystem& files);

  [[nodiscard]] bool lands_directly() const override { return true; }

 private:
  using IndexedStore::IndexedStore;
  void Place(const LayerGeometry& layer, std::span<const std::span<const std::byte>> landed,
             std::span<std::byte> slot) const override;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_PACKED_STORE_H_
