#ifndef MOETIER_TIERS_STORE_INDEXED_STORE_H_
#define MOETIER_TIERS_STORE_INDEXED_STORE_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tiers/store/expert_store.h"
#include "tiers/store/file_system.h"
#include "tiers/store/store_index.h"

namespace moetier {

// What packed and in-place stores share: an index, and the check of landed bytes against it.
class IndexedStore : public ExpertStore {
 public:
  [[nodiscard]] const ModelGeometry& geometry() const override { return geometry_; }
  [[nodiscard]] StoreKind kind() const override { return index_.kind(); }
  [[nodiscard]] uint64_t fingerprint() const override { return index_.fingerprint; }
  [[nodiscard]] std::span<const StoreFile> files() const override { return files_; }
  [[nodiscard]] std::span<const std::string> source_paths() const override { return sources_; }
  [[nodiscard]] ExtentList Locate(LayerIndex layer, ExpertIndex expert) const override;
  Status Land(LayerIndex layer, ExpertIndex expert,
              std::span<const std::span<const std::byte>> landed, std::span<std::byte> slot,
              Verify verify) const override;

 protected:
  IndexedStore(StoreIndex index, ModelGeometry geometry, std::vector<StoreFile> files);

  // Writes the record; `landed` are the extents' exact bytes, checked if that was asked.
  virtual void Place(const LayerGeometry& layer, std::span<const std::span<const std::byte>> landed,
                     std::span<std::byte> slot) const = 0;

 private:
  // Index into index_.layers and geometry_.layers.
  [[nodiscard]] size_t Ordinal(LayerIndex layer) const;
  Status Check(size_t ordinal, ExpertIndex expert,
               std::span<const std::span<const std::byte>> landed) const;

  StoreIndex index_;
  ModelGeometry geometry_;
  std::vector<StoreFile> files_;
  std::vector<std::string> sources_;
};

// The index of `directory`. kNotFound, kBadStore when there is none, saying whether an import was
// interrupted there.
Result<StoreIndex> ReadStoreIndex(const std::string& directory, FileSystem& files);

// ExpertStore::Open on any file system; model files are always the host's.
Result<std::unique_ptr<ExpertStore>> OpenStore(const std::string& directory, FileSystem& files);

// xxh3-64 over the pieces, one after another.
uint64_t ChecksumOf(std::span<const std::span<const std::byte>> pieces);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_INDEXED_STORE_H_
