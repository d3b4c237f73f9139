#ifndef MOETIER_TIERS_STORE_IMPORT_PLAN_H_
#define MOETIER_TIERS_STORE_IMPORT_PLAN_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tiers/store/moe_model.h"
#include "tiers/store/store_index.h"

namespace moetier {

// By RouterRole; nullptr where the model has none.
std::array<const GgufTensor*, kRouterRoles> RouterTensors(const RouterSource& router);

struct ImportPlanOptions {
  std::string model_path;
  kernels::RecordForm form = kernels::RecordForm::kRows16;
  bool in_place = false;
  std::optional<kernels::Activation> activation = {};
};

// Everything about a store that is known before a weight is read: the index is complete but for the
// checksums, which are 0.
struct ImportPlan {
  MoeModel model;
  StoreIndex index;
  uint64_t data_bytes = 0;  // of the packed data file, 0 in place

  [[nodiscard]] std::vector<std::string> ShardPaths() const;
};

// Reads the model's headers. Errors as GgufModel::Open, ReadMoeModel and ModelFingerprint.
Result<ImportPlan> MakeImportPlan(const ImportPlanOptions& options);

// The same of a model whose headers are read already: `sources` are the files of its shards, in
// their order. The options' path is for messages, their form the one that the model was read for.
Result<ImportPlan> PlanImport(MoeModel model, uint64_t fingerprint, std::vector<SourceFile> sources,
                              const ImportPlanOptions& options);

// The plan that would make `index` again from its recorded sources, or from `model_path` if given.
// kFailedPrecondition, kStaleStore when the model there is another one.
Result<ImportPlan> PlanOfStore(const StoreIndex& index, const std::string& directory,
                               const std::string& model_path = "");

// For an in-place store: the sources still have their sizes, their fingerprint and every extent.
// kFailedPrecondition, kStaleStore.
Status CheckSourcesUnchanged(const StoreIndex& index, const std::string& directory);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_IMPORT_PLAN_H_
