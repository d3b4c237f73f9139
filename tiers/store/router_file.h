#ifndef MOETIER_TIERS_STORE_ROUTER_FILE_H_
#define MOETIER_TIERS_STORE_ROUTER_FILE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tiers/store/expert_source.h"
#include "tiers/store/file_system.h"
#include "tiers/store/store_index.h"

namespace moetier {

// One router tensor, as the model file has it.
struct RouterMatrix {
  uint32_t ggml_type = 0;
  uint32_t rows = 0;  // experts for the matrix, 1 for a bias
  uint32_t columns = 0;
  std::vector<std::byte> bytes;  // rows x columns in blocks of ggml_type
};

// The router of one layer, for prefetch: score(weight x hidden + logit bias) + choice bias ranks
// the experts. Tensors by RouterRole; a bias that the model does not have is empty.
struct LayerRouter {
  LayerIndex layer{};
  RouterScore score = RouterScore::kSoftmax;
  std::array<std::optional<RouterMatrix>, kRouterRoles> tensors;
};

// The routers that were imported with a store's model; layers without a matrix are left out.
// kChecksum when the file is damaged.
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
