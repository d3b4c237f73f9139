#ifndef MOETIER_TIERS_STORE_STORE_CATALOG_H_
#define MOETIER_TIERS_STORE_STORE_CATALOG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tiers/store/expert_store.h"

namespace moetier {

// kUnfinished: an import was interrupted or is running. kDamaged: `problem` says what to do.
enum class StoreState : uint8_t { kComplete, kUnfinished, kDamaged };
std::string_view StoreStateName(StoreState state);  // "complete" "unfinished" "damaged"

// What `models` shows of one store directory.
struct StoreInfo {
  std::string directory;
  StoreState state = StoreState::kComplete;
  std::string problem;  // empty when complete
  // The rest is 0 or empty where the index cannot be read.
  std::string name;
  std::string architecture;
  StoreKind kind = StoreKind::kPackedRows16;
  uint64_t fingerprint = 0;
  uint32_t layers = 0;
  uint32_t experts = 0;       // in all layers
  uint64_t record_bytes = 0;  // of all experts
  uint64_t disk_bytes = 0;    // of the store's own files; an in-place store has few
  std::vector<std::string> source_paths;
};

// "qwen3-30b-a3b-0123456789abcdef": a name that is safe as a directory's, whatever the model file
// says.
std::string StoreDirectoryName(std::string_view model_name, uint64_t fingerprint);

// The stores directly below `root`, by name; `root` itself if it is one. Other directories are
// passed over. Opens each, so that a stale or damaged one says so. kNotFound without `root`.
Result<std::vector<StoreInfo>> ListStores(const std::string& root);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_STORE_CATALOG_H_
