#ifndef MOETIER_TIERS_STORE_EXPERT_SOURCE_H_
#define MOETIER_TIERS_STORE_EXPERT_SOURCE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "kernels/layout.h"
#include "tiers/store/moe_model.h"

namespace moetier {

// Reads the experts and routers of a model out of its files. Threads: one at a time.
class ExpertSource {
 public:
  static Result<ExpertSource> Open(std::vector<std::string> shard_paths);

  // The expert's parts, read into buffers that the next call reuses.
  Result<kernels::SourceExpert> Read(const MoeLayerSource& layer, uint32_t expert);
  // A whole tensor, likewise; the caller has bounded its size.
  Result<std::span<const std::byte>> Read(const GgufTensor& tensor);

 private:
  Status ReadInto(std::vector<std::byte>& buffer, uint32_t shard, uint64_t offset, uint64_t bytes);

  std::vector<std::string> paths_;
  std::vector<UniqueFd> shards_;
  std::array<std::vector<std::byte>, kernels::kPartRoles> buffers_;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_EXPERT_SOURCE_H_
