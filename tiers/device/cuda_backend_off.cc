// The CUDA backend of a build that has none.

#include "tiers/device/cuda_backend.h"

namespace moetier {

Result<std::unique_ptr<Device>> OpenCudaDevice(const GpuChoice& /*choice*/,
                                               const Clock& /*clock*/) {
  return Error{ErrorCode::kUnavailable, Reason::kUnspecified,
               fmt::format("this build has no CUDA backend ({}); build it where nvcc is",
                           MOETIER_CUDA_OFF_REASON)};
}

std::string CudaBackendState() { return fmt::format("off ({})", MOETIER_CUDA_OFF_REASON); }

}  // namespace moetier
