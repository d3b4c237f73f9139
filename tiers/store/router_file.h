#ifndef MOETIER_TIERS_STORE_ROUTER_FILE_H_
#define MOETIER_TIERS_STORE_ROUTER_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tiers/store/expert_source.h"
#include "tiers/store/file_system.h"
#include "tiers/store/store_index.h"

namespace moetier {

// The router of one layer, for prefetch: scores = weight x hidden row, picked by `score`.
struct LayerRouter {
  LayerIndex layer{};
  RouterScore score = RouterScore::kSoftmax;
  uint32_t experts = 0;
  uint32_t hidden = 0;
  uint32_t weight_type = 0;       // ggml's number
  std::vector<std::byte> weight;  // [experts, hidden] in blocks of weight_type
  uint32_t bias_type = 0;
  std::vector<std::byte> bias;  // [experts], added for the choice only; empty if there is none
};

// The routers that were imported with a store's model; layers without one are left out. kChecksum
// when the file is damaged.
Result<std::vector<LayerRouter>> ReadRouters(const std::string& directory);

// Copies the model's router tensors to `file`, as `index` places them, fills in their checksums
// there and syncs the file.
Status CopyRouters(const MoeModel& model, ExpertSource& source, StoreIndex& index,
                   StoreFileHandle& file);

// One tensor's bytes out of the router file at `path`, checked.
Result<std::vector<std::byte>> ReadRouterTensor(StoreFileHandle& file, const RouterTensor& tensor,
                                                LayerIndex layer, const std::string& path);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_ROUTER_FILE_H_
