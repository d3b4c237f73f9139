#include "kernels/cuda/nvcc/driver_memory.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/text_size.h"

namespace moetier::kernels::cuda {
namespace {

constexpr unsigned kDriverVersion = 11020;  // CUDA 11.2: all of these functions, as they still are

template <typename Function>
bool Find(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, kDriverVersion, cudaEnableDefault, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) return false;
  function = reinterpret_cast<Function>(found);
  return true;
}

}  // namespace

Result<std::unique_ptr<DriverMemory>> DriverMemory::Create(int ordinal, Sharing sharing) {
  std::unique_ptr<DriverMemory> memory(new DriverMemory());
  Functions& functions = memory->functions_;
  const bool found =
      Find("cuGetErrorString", functions.get_error_string) &&
      Find("cuMemGetAllocationGranularity", functions.get_granularity) &&
      Find("cuMemAddressReserve", functions.reserve) &&
      Find("cuMemAddressFree", functions.unreserve) && Find("cuMemCreate", functions.create) &&
      Find("cuMemRelease", functions.release) && Find("cuMemMap", functions.map) &&
      Find("cuMemUnmap", functions.unmap) && Find("cuMemSetAccess", functions.set_access) &&
      Find("cuDeviceGetAttribute", functions.get_attribute) &&
      Find("cuMemRetainAllocationHandle", functions.retain) &&
      Find("cuMemExportToShareableHandle", functions.share);
  if (!found) {
    return Error{ErrorCode::kUnavailable, Reason::kIo,
                 "the NVIDIA driver has no virtual memory management; install one of CUDA 11.2 or "
                 "later"};
  }
  memory->properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory->properties_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memory->properties_.location.id = ordinal;
  memory->access_.location = memory->properties_.location;
  memory->access_.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  memory->sharing_ = sharing;
  if (sharing == Sharing::kExportable) {
    int can = 0;
    const CUresult asked = functions.get_attribute(
        &can, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, ordinal);
    if (asked == CUDA_SUCCESS && can != 0) {
      memory->properties_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    }
  }
  const CUresult result = functions.get_granularity(&memory->granule_, &memory->properties_,
                                                    CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  if (result != CUDA_SUCCESS) return memory->Refused("cuMemGetAllocationGranularity", result);
  return memory;
}

Error DriverMemory::Refused(const char* call, CUresult result) const {
  const char* text = nullptr;
  if (functions_.get_error_string(result, &text) != CUDA_SUCCESS) text = "an unknown error";
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    return {ErrorCode::kExhausted, Reason::kMemoryLimit, fmt::format("{}: {}", call, text)};
  }
  return {ErrorCode::kUnavailable, Reason::kIo, fmt::format("{}: {}", call, text)};
}

Result<std::byte*> DriverMemory::Reserve(size_t bytes) {
  CUdeviceptr begin = 0;
  const CUresult result = functions_.reserve(&begin, bytes, granule_, 0, 0);
  if (result != CUDA_SUCCESS) return Refused("cuMemAddressReserve", result);
  return reinterpret_cast<std::byte*>(begin);  // NOLINT: the GPU's addresses are integers
}

void DriverMemory::Unreserve(std::byte* begin, size_t bytes) {
  functions_.unreserve(reinterpret_cast<CUdeviceptr>(begin), bytes);
}

// A handle of its own for each granule, so that any can be given back; the mapping keeps its
// memory, so the handle is released at once.
Status DriverMemory::MapGranule(CUdeviceptr at) {
  CUmemGenericAllocationHandle handle{};
  CUresult result = functions_.create(&handle, granule_, &properties_, 0);
  if (result != CUDA_SUCCESS) return Refused("cuMemCreate", result);
  result = functions_.map(at, granule_, 0, handle, 0);
  functions_.release(handle);
  if (result != CUDA_SUCCESS) return Refused("cuMemMap", result);
  return Ok{};
}

Status DriverMemory::Map(std::byte* begin, size_t bytes) {
  const auto at = reinterpret_cast<CUdeviceptr>(begin);
  for (size_t done = 0; done < bytes; done += granule_) {
    if (Status mapped = MapGranule(at + done); !mapped) {
      Unmap(begin, done);
      mapped.error().message = fmt::format("{} of {}: {}", FormatSize(Bytes(done)),
                                           FormatSize(Bytes(bytes)), mapped.error().message);
      return mapped;
    }
  }
  const CUresult result = functions_.set_access(at, bytes, &access_, 1);
  if (result == CUDA_SUCCESS) return Ok{};
  Unmap(begin, bytes);
  return Refused("cuMemSetAccess", result);
}

Result<ExportedMemory> DriverMemory::Export(std::byte* begin, size_t bytes) {
  if (sharing_ != Sharing::kExportable) {
    return Error{ErrorCode::kFailedPrecondition, Reason::kBadConfig,
                 "this GPU's memory was not made to be exported"};
  }
  if (properties_.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE) {
    return Error{ErrorCode::kUnimplemented, Reason::kNotYet,
                 "this GPU's driver exports no memory as descriptors"};
  }
  ExportedMemory exported;
  for (size_t done = 0; done < bytes; done += granule_) {
    ASSIGN_OR_RETURN(UniqueFd file, ExportGranule(begin + done));
    exported.granules.push_back(std::move(file));
  }
  return exported;
}

// The mapping has kept what MapGranule released.
Result<UniqueFd> DriverMemory::ExportGranule(std::byte* at) {
  CUmemGenericAllocationHandle handle{};
  CUresult result = functions_.retain(&handle, at);
  if (result != CUDA_SUCCESS) return Refused("cuMemRetainAllocationHandle", result);
  int file = -1;
  result = functions_.share(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  functions_.release(handle);
  if (result != CUDA_SUCCESS) return Refused("cuMemExportToShareableHandle", result);
  return UniqueFd(file);
}

// Granule by granule, as they were mapped.
void DriverMemory::Unmap(std::byte* begin, size_t bytes) {
  const auto at = reinterpret_cast<CUdeviceptr>(begin);
  for (size_t done = 0; done < bytes; done += granule_) functions_.unmap(at + done, granule_);
}

}  // namespace moetier::kernels::cuda
