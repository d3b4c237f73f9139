#include "tiers/store/in_place_store.h"

#include "tiers/store/import_plan.h"
#include "tiers/store/index_geometry.h"

namespace moetier {

Result<std::unique_ptr<ExpertStore>> InPlaceStore::Open(StoreIndex index,
                                                        const std::string& directory) {
  ASSIGN_OR_RETURN(ModelGeometry geometry,
                   IndexGeometry(index, fmt::format("{}/{}", directory, kIndexFileName)));
  RETURN_IF_ERROR(CheckSourcesUnchanged(index, directory));
  std::vector<StoreFile> files = index.ExtentFiles(directory);
  return std::unique_ptr<ExpertStore>(
      new InPlaceStore(std::move(index), std::move(geometry), std::move(files)));
}

Result<std::unique_ptr<ExpertStore>> InPlaceStore::WithoutChecksums(StoreIndex index) {
  ASSIGN_OR_RETURN(ModelGeometry geometry, IndexGeometry(index, index.sources.front().path));
  std::vector<StoreFile> files = index.ExtentFiles("");
  return std::unique_ptr<ExpertStore>(
      new InPlaceStore(std::move(index), std::move(geometry), std::move(files)));
}

void InPlaceStore::Place(const LayerGeometry& layer,
                         std::span<const std::span<const std::byte>> landed,
                         std::span<std::byte> slot) const {
  kernels::SourceExpert source;
  size_t next = 0;
  for (size_t role = 0; role < kernels::kPartRoles; ++role) {
    if (layer.record.parts[role]) source.parts[role] = landed[next++];
  }
  kernels::PackRecord(layer.record, source, slot.first(layer.record.bytes));
}

}  // namespace moetier
