#ifndef MOETIER_TIERS_STORE_STORE_INDEX_H_
#define MOETIER_TIERS_STORE_STORE_INDEX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/layout.h"
#include "tiers/store/expert_store.h"
#include "tiers/store/model_geometry.h"

// The index is the store's manifest: a directory is a store if and only if it holds a valid one.
//
// It is a compact binary file of our own rather than JSON: a large model has 60 000 extents, its
// xxh3 must cover exact bytes, and a table of fixed-width fields can be bounded before it is
// allocated. Little-endian, no padding; "text" is a u16 length and that many bytes.
//
//   u8[8] magic "MOETIDX\n"   u32 format version   u32 layout version
//   u8 in place   u8 form   u8 router score   u8 zero   u64 fingerprint
//   text name   text architecture   u32 hidden   u32 top_k
//   u32 sources      x { text absolute path, u64 bytes, i64 mtime ns }
//   u32 data files   x { text name in the directory, u64 bytes }
//   u64 bytes of the router file, 0 if the model has no router
//   u32 layers       x { u16 block, u16 experts, u8 activation, u32 ffn,
//                        u8 types[3], u8 biases (bits gate, up, down), u64 record bytes,
//                        u8 extents a record, u8 routers (a bit a role),
//                        routers x { u32 type, u64 columns, u64 rows, u64 offset, u64 bytes, u64
//                        xxh3 }, experts x { extents x { u32 file, u64 offset, u64 bytes }, u64
//                        xxh3 } }
//   u64 xxh3 of all the bytes before it
//
// `file` counts the data files of a packed store and the sources of an in-place one, so that an
// index can name several paths (stripes). Extents of a record stand in the order of PartRole.

namespace moetier {

inline constexpr uint32_t kIndexFormatVersion = 1;
inline constexpr std::string_view kIndexFileName = "index";
inline constexpr std::string_view kRouterFileName = "routers.bin";
// 1024 layers of 4096 experts in six extents would be 510 MiB; real indexes are below 4 MiB.
inline constexpr uint64_t kMaxIndexBytes = uint64_t{64} << 20;
inline constexpr size_t kMaxIndexNameLength = 255;  // of a model, an architecture or a file
inline constexpr uint64_t kMaxStoreFileBytes = uint64_t{1} << 46;  // 64 TiB

// A model file as it was at import.
struct SourceFile {
  std::string path;  // absolute
  uint64_t bytes = 0;
  int64_t mtime_ns = 0;  // for the operator; a copy with other times is still the same model
  friend bool operator==(const SourceFile&, const SourceFile&) = default;
};

// What a router tensor is for: see RouterSource.
enum class RouterRole : uint8_t { kWeight, kChoiceBias, kLogitBias };
inline constexpr size_t kRouterRoles = 3;

// One router tensor in routers.bin, bytes as the model file has them.
struct RouterTensor {
  uint32_t ggml_type = 0;
  uint64_t columns = 0;  // hidden for the matrix, experts for a bias
  uint64_t rows = 0;     // experts for the matrix, 1 for a bias
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t xxh3 = 0;
  friend bool operator==(const RouterTensor&, const RouterTensor&) = default;
};

struct IndexLayer {
  LayerIndex layer{};
  uint32_t experts = 0;
  kernels::ExpertShape shape;  // hidden is the model's
  uint64_t record_bytes = 0;
  uint32_t extents_per_record = 0;
  std::array<std::optional<RouterTensor>, kRouterRoles> routers;
  std::vector<Extent> extents;      // [experts, extents_per_record]
  std::vector<uint64_t> checksums;  // [experts]

  [[nodiscard]] std::span<const Extent> ExtentsOf(uint32_t expert) const {
    return std::span(extents).subspan(size_t{expert} * extents_per_record, extents_per_record);
  }
};

// A value: what the index file says, every extent inside its file.
struct StoreIndex {
  uint32_t layout_version = kernels::kLayoutVersion;
  bool in_place = false;
  kernels::RecordForm form = kernels::RecordForm::kRows16;
  RouterScore router_score = RouterScore::kSoftmax;
  uint64_t fingerprint = 0;
  std::string name;
  std::string architecture;
  uint32_t hidden = 0;
  uint32_t top_k = 0;
  std::vector<SourceFile> sources;
  std::vector<StoreFile> data_files;  // path is the name inside the directory
  uint64_t router_bytes = 0;
  std::vector<IndexLayer> layers;  // ascending

  [[nodiscard]] StoreKind kind() const;
  // The files that extents count: data files, or the sources of an in-place store.
  [[nodiscard]] std::vector<StoreFile> ExtentFiles(const std::string& directory) const;
  [[nodiscard]] uint32_t TotalExperts() const;
};

std::vector<std::byte> SerializeStoreIndex(const StoreIndex& index);

// `path` is for messages. kBadStore, naming path and byte: kFailedPrecondition for another format
// version, kDataLoss for damage.
Result<StoreIndex> ParseStoreIndex(std::span<const std::byte> bytes, const std::string& path);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_STORE_INDEX_H_
