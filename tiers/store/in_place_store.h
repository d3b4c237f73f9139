#ifndef MOETIER_TIERS_STORE_IN_PLACE_STORE_H_
#define MOETIER_TIERS_STORE_IN_PLACE_STORE_H_

#include <memory>
#include <string>

#include "tiers/store/indexed_store.h"

namespace moetier {

// The model's own files with an index beside them: no second copy of the weights. An expert is one
// extent a part, laid out as a record when it lands.
class InPlaceStore final : public IndexedStore {
 public:
  // kFailedPrecondition, kStaleStore when a model file is gone, has another size, or holds another
  // model or the same tensors elsewhere. Reads the files' headers and 256 KiB of samples.
  static Result<std::unique_ptr<ExpertStore>> Open(StoreIndex index, const std::string& directory);

  // A model in place without an index on disk: no checksums are on record, so nothing that lands
  // may be asked to be checked.
  static Result<std::unique_ptr<ExpertStore>> WithoutChecksums(StoreIndex index);

  [[nodiscard]] bool lands_directly() const override { return false; }

 private:
  using IndexedStore::IndexedStore;
  void Place(const LayerGeometry& layer, std::span<const std::span<const std::byte>> landed,
             std::span<std::byte> slot) const override;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_IN_PLACE_STORE_H_
