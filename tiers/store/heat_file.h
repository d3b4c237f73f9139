#ifndef MOETIER_TIERS_STORE_HEAT_FILE_H_
#define MOETIER_TIERS_STORE_HEAT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tiers/store/file_system.h"
#include "tiers/store/model_heat.h"

namespace moetier {

// A heat file. Little-endian:
//   u8[8] magic "MOETHEAT"   u32 version 1   u32 layers   u64 fingerprint
//   layers x { u16 layer, u16 zero, u32 experts, experts x f32 }   layers ascending
//   u64 xxh3 of all before
std::vector<std::byte> SerializeHeat(const ModelHeat& heat);

// From any bytes: counts are bounded by what is there before anything is taken, heats are finite
// and at least 0. kDataLoss, with what is wrong: kChecksum for bytes that are not those that were
// written, kBadShape for a later version or what no version writes.
Result<ModelHeat> ParseHeat(std::span<const std::byte> bytes);

// The heat files of a directory, one a model, named by its fingerprint. Every moment leaves a whole
// file or none: a new one is written aside, synced, then takes the name.
// Threads: one at a time. Lifetime: the file system outlives it.
class HeatFolder {
 public:
  HeatFolder(FileSystem& files, std::string directory)
      : files_(files), directory_(std::move(directory)) {}

  // Makes the directory when it is missing. Durable on return.
  Status Save(const ModelHeat& heat);

  struct Found {
    std::optional<ModelHeat> heat;  // none when there is no file, or no good one
    std::optional<std::string>
        warning;  // a file that is not this model's heat, and where it is now
  };
  // A damaged or wrong file is moved aside, to NAME.damaged, so that it is neither used nor lost.
  Found Load(uint64_t fingerprint, const ModelGeometry& geometry);

  [[nodiscard]] std::string PathOf(uint64_t fingerprint) const;

 private:
  FileSystem& files_;
  const std::string directory_;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_HEAT_FILE_H_
