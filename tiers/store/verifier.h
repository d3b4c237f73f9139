#ifndef MOETIER_TIERS_STORE_VERIFIER_H_
#define MOETIER_TIERS_STORE_VERIFIER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tiers/store/expert_store.h"
#include "tiers/store/file_system.h"

namespace moetier {

struct VerifyOptions {
  bool repair = false;
  std::string model_path =
      {};  // for a repair, if the model is no longer where it was imported from
};

struct VerifyProgress {
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;
  uint32_t records_done = 0;
  uint32_t records_total = 0;
  uint32_t damaged = 0;
};

// Called after each record on the caller's thread; false stops (kCancelled).
using VerifyCallback = std::function<bool(const VerifyProgress&)>;

struct DamagedRecord {
  LayerIndex layer{};
  std::optional<ExpertIndex> expert;  // none: the layer's router
  std::string path;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::string problem;  // says expected and found
  bool repaired = false;
  std::string repair_problem;  // why it could not be repaired, if that was asked
};

struct VerifyReport {
  std::string directory;
  StoreKind kind = StoreKind::kPackedRows16;
  uint64_t fingerprint = 0;
  uint32_t records = 0;
  uint64_t bytes = 0;
  std::vector<DamagedRecord> damaged;

  // Nothing is damaged, or all of it has been repaired.
  [[nodiscard]] bool good() const;
};

// Reads every record of a store and compares its checksum. A missing or short data file is damage
// of the records in it; a damaged index, a stale in-place source or a bad repair source is an
// error.
//
// A repair makes the damaged records again from the model (kStaleStore when it is another one) and
// writes one only if it has the very checksum that the index asks for. It writes in place: until
// the bytes are whole the record is what it was before, damaged and known to be. A damaged in-place
// record cannot be repaired: the model file itself is damaged.
// Takes the directory's lock for a repair only. Blocks; any thread.
Result<VerifyReport> VerifyStore(const std::string& directory, const VerifyOptions& options,
                                 FileSystem& files, const VerifyCallback& callback = nullptr);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_VERIFIER_H_
