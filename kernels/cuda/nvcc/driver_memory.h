#ifndef MOETIER_KERNELS_CUDA_NVCC_DRIVER_MEMORY_H_
#define MOETIER_KERNELS_CUDA_NVCC_DRIVER_MEMORY_H_

#include <cuda.h>

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "kernels/cuda/gpu.h"

namespace moetier::kernels::cuda {

// Addresses and memory of one GPU apart from each other, which only the driver's own interface has
// ("virtual memory management"). Its functions are asked of the runtime by name, so that nothing
// links the driver's library.
// Threads: any, with this GPU current.
class DriverMemory {
 public:
  // kUnavailable when the driver or the GPU has no virtual memory management.
  static Result<std::unique_ptr<DriverMemory>> Create(int ordinal, Sharing sharing);

  [[nodiscard]] size_t granule() const { return granule_; }
  // As Gpu says.
  Result<std::byte*> Reserve(size_t bytes);
  void Unreserve(std::byte* begin, size_t bytes);
  Status Map(std::byte* begin, size_t bytes);
  void Unmap(std::byte* begin, size_t bytes);
  Result<ExportedMemory> Export(std::byte* begin, size_t bytes);

 private:
  struct Functions {
    decltype(&cuGetErrorString) get_error_string = nullptr;
    decltype(&cuMemGetAllocationGranularity) get_granularity = nullptr;
    decltype(&cuMemAddressReserve) reserve = nullptr;
    decltype(&cuMemAddressFree) unreserve = nullptr;
    decltype(&cuMemCreate) create = nullptr;
    decltype(&cuMemRelease) release = nullptr;
    decltype(&cuMemMap) map = nullptr;
    decltype(&cuMemUnmap) unmap = nullptr;
    decltype(&cuMemSetAccess) set_access = nullptr;
    decltype(&cuDeviceGetAttribute) get_attribute = nullptr;
    decltype(&cuMemRetainAllocationHandle) retain = nullptr;
    decltype(&cuMemExportToShareableHandle) share = nullptr;
  };

  DriverMemory() = default;
  [[nodiscard]] Error Refused(const char* call, CUresult result) const;
  Status MapGranule(CUdeviceptr at);
  Result<UniqueFd> ExportGranule(std::byte* at);

  Functions functions_;
  CUmemAllocationProp properties_{};
  CUmemAccessDesc access_{};
  size_t granule_ = 0;
  Sharing sharing_ = Sharing::kNone;
};

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_NVCC_DRIVER_MEMORY_H_
