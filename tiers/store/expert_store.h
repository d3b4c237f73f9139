#ifndef MOETIER_TIERS_STORE_EXPERT_STORE_H_
#define MOETIER_TIERS_STORE_EXPERT_STORE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tiers/store/model_geometry.h"

namespace moetier {

// A run of bytes in one of the store's files.
struct Extent {
  uint32_t file = 0;  // index into ExpertStore::files()
  uint64_t offset = 0;
  uint64_t bytes = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

// The extents of one record, in the order in which Land wants them. At most one a part.
struct ExtentList {
  std::array<Extent, kernels::kPartRoles> extents;
  uint32_t count = 0;
  [[nodiscard]] std::span<const Extent> view() const { return {extents.data(), count}; }
};

struct StoreFile {
  std::string path;
  uint64_t bytes = 0;
};

enum class StoreKind : uint8_t { kPackedRows16, kPackedSource, kInPlace };
std::string_view StoreKindName(StoreKind kind);  // "rows16" "source" "in-place"

enum class Verify : uint8_t { kYes, kNo };

// Read-only experts on disk. Says where a record's bytes lie and turns landed bytes into the record
// that kernels read; it does no I/O after Open. Threads: immutable, any.
class ExpertStore {
 public:
  // Opens DIR (a packed or in-place store). kStaleStore when an in-place source changed; kBadStore
  // names file and offset of what is wrong.
  static Result<std::unique_ptr<ExpertStore>> Open(const std::string& directory);

  virtual ~ExpertStore() = default;
  [[nodiscard]] virtual const ModelGeometry& geometry() const = 0;
  [[nodiscard]] virtual StoreKind kind() const = 0;
  [[nodiscard]] virtual uint64_t fingerprint() const = 0;
  [[nodiscard]] virtual std::span<const StoreFile> files() const = 0;
  // The model files that the store was made from (all shards), as given at import.
  [[nodiscard]] virtual std::span<const std::string> source_paths() const = 0;

  // `layer` and `expert` exist. Packed records start at multiples of kRecordAlignment.
  [[nodiscard]] virtual ExtentList Locate(LayerIndex layer, ExpertIndex expert) const = 0;

  // True: the one extent is the record as it stands and may be read straight into its slot.
  // False: Land lays the extents out into the slot.
  [[nodiscard]] virtual bool lands_directly() const = 0;

  // Checks the landed bytes against the record's xxh3 when asked (kDataLoss, kChecksum, with file
  // and offset) and writes the record to `slot` unless lands_directly(). landed[i] holds the bytes
  // of extent i; when lands_directly(), landed[0] is the slot itself.
  virtual Status Land(LayerIndex layer, ExpertIndex expert,
                      std::span<const std::span<const std::byte>> landed, std::span<std::byte> slot,
                      Verify verify) const = 0;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_EXPERT_STORE_H_
