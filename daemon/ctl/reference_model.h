#ifndef MOETIER_DAEMON_CTL_REFERENCE_MODEL_H_
#define MOETIER_DAEMON_CTL_REFERENCE_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "daemon/ctl/golden_rows.h"
#include "daemon/ctl/output_grid.h"
#include "tiers/store/moe_model.h"

namespace moetier {

// Computes what the daemon must answer, by the scalar definition and from the model file itself:
// neither the store nor the daemon's kernels have a part in it.
// Threads: immutable after Open; Compute starts threads of its own and joins them.
class ReferenceModel {
 public:
  // `gguf_path`: the file, or any of its shards.
  static Result<ReferenceModel> Open(const std::string& gguf_path);

  [[nodiscard]] const ModelGeometry& geometry() const { return model_.geometry; }

  // kInvalidArgument when the rows' layers, width, top_k or expert ids are not this model's.
  [[nodiscard]] Status CheckFits(const GoldenRows& rows) const;

  // All rows through all layers. The rows fit.
  [[nodiscard]] Result<OutputGrid> Compute(const GoldenRows& rows) const;

 private:
  ReferenceModel(MoeModel model, std::vector<std::string> paths, std::vector<UniqueFd> files)
      : model_(std::move(model)), paths_(std::move(paths)), files_(std::move(files)) {}

  [[nodiscard]] Status ComputeLayer(const GoldenRows& rows, uint32_t layer, OutputGrid& out) const;

  MoeModel model_;
  std::vector<std::string> paths_;  // one a shard
  std::vector<UniqueFd> files_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_REFERENCE_MODEL_H_
