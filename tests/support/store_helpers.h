#ifndef MOETIER_TESTS_SUPPORT_STORE_HELPERS_H_
#define MOETIER_TESTS_SUPPORT_STORE_HELPERS_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "tiers/store/expert_store.h"
#include "tiers/store/gguf_model.h"

namespace moetier::testing {

// Reads an expert's extents with plain reads, as a record reader would, and lands them.
Result<std::vector<std::byte>> LandRecord(const ExpertStore& store, LayerIndex layer,
                                          ExpertIndex expert);

// One GGUF file in memory and the records that its experts must make: slices found by tensor name,
// laid out by kernels::PackRecord. For unfused models.
class SourceModel {
 public:
  explicit SourceModel(const std::string& path);
  [[nodiscard]] std::vector<std::byte> Record(const LayerGeometry& layer, uint32_t expert) const;

 private:
  GgufModel gguf_;
  std::vector<std::byte> file_;
};

// The layer's expert whose landed record is not what `source` makes, described; empty if all are.
std::string FirstDifference(const ExpertStore& store, const SourceModel& source);

std::vector<std::byte> FileBytes(const std::string& path);
void WriteFileBytes(const std::string& path, const std::vector<std::byte>& bytes);

// The store's own files by name, without the lock.
std::map<std::string, std::vector<std::byte>> StoreContents(const std::string& directory);

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_SUPPORT_STORE_HELPERS_H_
