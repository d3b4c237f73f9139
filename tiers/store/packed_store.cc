#include "tiers/store/packed_store.h"

#include "base/check.h"
#include "tiers/store/index_geometry.h"

namespace moetier {
namespace {

Status CheckDataFile(const StoreFile& file, const std::string& directory, FileSystem& files) {
  const auto damaged = [&](std::string what) {
    return Error{ErrorCode::kDataLoss, Reason::kBadStore,
                 fmt::format("{} {}; repair it with moetierctl verify --repair {}", file.path, what,
                             directory)};
  };
  ASSIGN_OR_RETURN(const bool exists, files.Exists(file.path));
  if (!exists) return damaged("is missing");
  ASSIGN_OR_RETURN(const auto handle, files.Open(file.path, FileSystem::Mode::kRead));
  ASSIGN_OR_RETURN(const uint64_t bytes, handle->Size());
  if (bytes == file.bytes) return Ok{};
  return damaged(fmt::format("has {} bytes, the index says {}", bytes, file.bytes));
}

}  // namespace

Result<std::unique_ptr<ExpertStore>> PackedStore::Open(StoreIndex index,
                                                       const std::string& directory,
                                                       FileSystem& files) {
  ASSIGN_OR_RETURN(ModelGeometry geometry,
                   IndexGeometry(index, fmt::format("{}/{}", directory, kIndexFileName)));
  std::vector<StoreFile> data_files = index.ExtentFiles(directory);
  for (const StoreFile& file : data_files) RETURN_IF_ERROR(CheckDataFile(file, directory, files));
  if (index.router_bytes > 0) {
    RETURN_IF_ERROR(CheckDataFile(
        {fmt::format("{}/{}", directory, kRouterFileName), index.router_bytes}, directory, files));
  }
  return std::unique_ptr<ExpertStore>(
      new PackedStore(std::move(index), std::move(geometry), std::move(data_files)));
}

void PackedStore::Place(const LayerGeometry&, std::span<const std::span<const std::byte>> landed,
                        std::span<std::byte> slot) const {
  MOE_CHECK(landed[0].data() == slot.data(), "a packed record lands in its slot");
}

}  // namespace moetier
