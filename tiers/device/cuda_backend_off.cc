// The CUDA backend of a build that has none.

#include <filesystem>
#include <system_error>

#include "tiers/device/cuda_backend.h"

namespace moetier {

Result<std::unique_ptr<Device>> OpenCudaDevice(const GpuChoice& /*choice*/,
                                               const Clock& /*clock*/) {
  std::error_code ignored;
  const bool has_driver = std::filesystem::exists("/dev/nvidiactl", ignored);
  return Error{has_driver ? ErrorCode::kUnavailable : ErrorCode::kNotFound, Reason::kUnspecified,
               fmt::format("this build has no CUDA backend ({}); build it where nvcc is",
                           MOETIER_CUDA_OFF_REASON)};
}

std::string CudaBackendState() { return fmt::format("off ({})", MOETIER_CUDA_OFF_REASON); }

}  // namespace moetier
