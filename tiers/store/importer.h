#ifndef MOETIER_TIERS_STORE_IMPORTER_H_
#define MOETIER_TIERS_STORE_IMPORTER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/layout.h"
#include "tiers/store/expert_store.h"
#include "tiers/store/file_system.h"
#include "tiers/store/moe_model.h"

namespace moetier {

struct ImportOptions {
  std::string model_path;  // the GGUF file, or any of its shards
  // Where the store goes; if empty, store_root/StoreDirectoryName(...).
  std::string store_directory = {};
  std::string store_root = {};
  kernels::RecordForm form = kernels::RecordForm::kRows16;
  bool in_place = false;
  std::optional<kernels::Activation> activation = {};  // for architectures that we do not know
  // Refuse scales and weights that are NaN or infinite (kBadGguf names tensor, expert and block).
  bool scan_weights = true;
  // Record bytes between two fsyncs: what an interruption can cost, against the drive's own pace.
  uint64_t sync_bytes = uint64_t{256} << 20;
};

enum class ImportPhase : uint8_t { kExperts, kRouters, kCommit };

struct ImportProgress {
  ImportPhase phase = ImportPhase::kExperts;
  uint64_t bytes_done = 0;  // of expert records
  uint64_t bytes_total = 0;
  uint32_t experts_done = 0;
  uint32_t experts_total = 0;
};

// Called after each expert and phase on the importer's thread. False stops the import: what is done
// is kept, and the same call resumes it.
using ImportCallback = std::function<bool(const ImportProgress&)>;

struct ImportSummary {
  std::string directory;
  StoreKind kind = StoreKind::kPackedRows16;
  uint64_t fingerprint = 0;
  std::string name;
  uint32_t layers = 0;
  uint32_t experts = 0;
  uint64_t record_bytes = 0;      // of all experts, in place those of the source
  bool already_complete = false;  // the store was there; nothing has been written
  uint32_t experts_resumed = 0;   // found from an interrupted import
  // Experts imported in this run whose weights are odd but have a value; the first
  // kMaxImportWarnings are named, all are counted.
  std::vector<std::string> warnings;
  uint64_t warning_count = 0;
};
inline constexpr size_t kMaxImportWarnings = 20;

// Makes a store of a model. Takes the directory's lock (kStoreLocked), asks for the space before it
// writes (kOutOfSpace with the numbers), and writes records to temporary names. Durable in this
// order: records, index, names; a directory is a store only by the index, which comes last. So a
// crash, a full disk (kOutOfSpace) or a stop (kCancelled) leaves a resumable import and never a bad
// store, and the result has the same bytes however often it was interrupted. A directory that holds
// another model or kind is left alone (kAlreadyExists). Blocks; any thread, one a directory.
Result<ImportSummary> ImportModel(const ImportOptions& options, FileSystem& files,
                                  const ImportCallback& callback = nullptr);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_IMPORTER_H_
