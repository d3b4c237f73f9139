#include "tiers/store/indexed_store.h"

#define XXH_STATIC_LINKING_ONLY  // for a state on the stack: landing allocates nothing
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/check.h"
#include "tiers/store/import_journal.h"
#include "tiers/store/in_place_store.h"
#include "tiers/store/packed_store.h"

namespace moetier {

std::string_view StoreKindName(StoreKind kind) {
  switch (kind) {
    case StoreKind::kPackedRows16:
      return "rows16";
    case StoreKind::kPackedSource:
      return "source";
    case StoreKind::kInPlace:
      return "in-place";
  }
  return "unknown";
}

uint64_t ChecksumOf(std::span<const std::span<const std::byte>> pieces) {
  if (pieces.size() == 1) return XXH3_64bits(pieces[0].data(), pieces[0].size());
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (const auto piece : pieces) XXH3_64bits_update(&state, piece.data(), piece.size());
  return XXH3_64bits_digest(&state);
}

IndexedStore::IndexedStore(StoreIndex index, ModelGeometry geometry, std::vector<StoreFile> files)
    : index_(std::move(index)), geometry_(std::move(geometry)), files_(std::move(files)) {
  for (const SourceFile& source : index_.sources) sources_.push_back(source.path);
}

size_t IndexedStore::Ordinal(LayerIndex layer) const {
  const auto at = std::lower_bound(
      index_.layers.begin(), index_.layers.end(), layer,
      [](const IndexLayer& candidate, LayerIndex wanted) { return candidate.layer < wanted; });
  MOE_CHECK(at != index_.layers.end() && at->layer == layer, "blk.{} has no experts", Raw(layer));
  return static_cast<size_t>(at - index_.layers.begin());
}

ExtentList IndexedStore::Locate(LayerIndex layer, ExpertIndex expert) const {
  const IndexLayer& in = index_.layers[Ordinal(layer)];
  MOE_CHECK(Raw(expert) < in.experts, "blk.{} has {} experts, no {}", Raw(layer), in.experts,
            Raw(expert));
  ExtentList list;
  for (const Extent& extent : in.ExtentsOf(Raw(expert))) list.extents[list.count++] = extent;
  return list;
}

Status IndexedStore::Check(size_t ordinal, ExpertIndex expert,
                           std::span<const std::span<const std::byte>> landed) const {
  const IndexLayer& layer = index_.layers[ordinal];
  const uint64_t actual = ChecksumOf(landed);
  const uint64_t expected = layer.checksums[Raw(expert)];
  if (actual == expected) return Ok{};
  const Extent& at = layer.ExtentsOf(Raw(expert))[0];
  const std::filesystem::path file = files_[at.file].path;
  return Error{
      ErrorCode::kDataLoss, Reason::kChecksum,
      fmt::format("blk.{} expert {} at byte {} of {} has xxh3 {:016x}, {:016x} was expected; {}",
                  Raw(layer.layer), Raw(expert), at.offset, file.string(), actual, expected,
                  index_.in_place ? std::string("the model file is damaged: get it again")
                                  : fmt::format("run `moetierctl verify --repair {}`, then "
                                                "`moetierctl reload`",
                                                file.parent_path().string()))};
}

Status IndexedStore::Land(LayerIndex layer, ExpertIndex expert,
                          std::span<const std::span<const std::byte>> landed,
                          std::span<std::byte> slot, Verify verify) const {
  const size_t ordinal = Ordinal(layer);
  const auto extents = index_.layers[ordinal].ExtentsOf(Raw(expert));
  MOE_CHECK(landed.size() == extents.size(), "{} pieces landed of {}", landed.size(),
            extents.size());
  MOE_CHECK(slot.size() >= geometry_.layers[ordinal].record.bytes, "slot of {} bytes for {}",
            slot.size(), geometry_.layers[ordinal].record.bytes);
  // A direct read lands whole blocks; the record ends where its extent does.
  std::array<std::span<const std::byte>, kernels::kPartRoles> pieces;
  for (size_t i = 0; i < extents.size(); ++i) {
    MOE_CHECK(landed[i].size() >= extents[i].bytes, "piece {} has {} bytes of {}", i,
              landed[i].size(), extents[i].bytes);
    pieces[i] = landed[i].first(extents[i].bytes);
  }
  const auto exact = std::span<const std::span<const std::byte>>(pieces).first(extents.size());
  if (verify == Verify::kYes) RETURN_IF_ERROR(Check(ordinal, expert, exact));
  Place(geometry_.layers[ordinal], exact, slot);
  return Ok{};
}

Result<StoreIndex> ReadStoreIndex(const std::string& directory, FileSystem& files) {
  const std::string path = fmt::format("{}/{}", directory, kIndexFileName);
  ASSIGN_OR_RETURN(const bool exists, files.Exists(path));
  if (!exists) {
    ASSIGN_OR_RETURN(const bool interrupted,
                     files.Exists(fmt::format("{}/{}", directory, kJournalFileName)));
    return Error{ErrorCode::kNotFound, Reason::kBadStore,
                 fmt::format("{} is no store: it has no {}; {}", directory, kIndexFileName,
                             interrupted ? "an import into it was interrupted, run it again"
                                         : "make one with moetierctl import")};
  }
  ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadWholeFile(files, path, kMaxIndexBytes));
  return ParseStoreIndex(bytes, path);
}

Result<std::unique_ptr<ExpertStore>> OpenStore(const std::string& directory, FileSystem& files) {
  ASSIGN_OR_RETURN(StoreIndex index, ReadStoreIndex(directory, files));
  if (index.in_place) return InPlaceStore::Open(std::move(index), directory);
  return PackedStore::Open(std::move(index), directory, files);
}

Result<std::unique_ptr<ExpertStore>> ExpertStore::Open(const std::string& directory) {
  return OpenStore(directory, HostFileSystem());
}

}  // namespace moetier
