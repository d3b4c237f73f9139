#include "tiers/device/cuda_backend.h"

#include <algorithm>

#include "base/text_size.h"
#include "kernels/cuda/gpu.h"
#include "tiers/device/cuda_device.h"

namespace moetier {
namespace {

using kernels::cuda::GpuInfo;

Result<GpuInfo> Choose(const std::vector<GpuInfo>& gpus, const GpuChoice& choice) {
  if (choice.uuid.empty()) return gpus.front();
  const auto found = std::ranges::find(gpus, choice.uuid, &GpuInfo::uuid);
  if (found != gpus.end()) return *found;
  std::string list;
  for (const GpuInfo& gpu : gpus) {
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", gpu.uuid, gpu.name);
  }
  return Error{
      ErrorCode::kUnavailable, Reason::kIo,
      fmt::format("no GPU has the UUID {} of devices[].uuid; there are {}", choice.uuid, list)};
}

Result<Bytes> BudgetOf(kernels::cuda::Gpu& gpu, const GpuChoice& choice) {
  if (choice.budget) return *choice.budget;
  ASSIGN_OR_RETURN(const Bytes free, gpu.FreeMemory());
  if (free > choice.reserve) return free - choice.reserve;
  return Error{ErrorCode::kUnavailable, Reason::kNoRoom,
               fmt::format("{} has {} free, and devices[].reserve leaves {} to others; lower it, "
                           "or give devices[].budget",
                           gpu.info().name, FormatSize(free), FormatSize(choice.reserve))};
}

Result<std::unique_ptr<Device>> Open(const GpuChoice& choice, const Clock& clock) {
  ASSIGN_OR_RETURN(const std::vector<GpuInfo> gpus, kernels::cuda::FindGpus());
  ASSIGN_OR_RETURN(const GpuInfo info, Choose(gpus, choice));
  ASSIGN_OR_RETURN(
      std::unique_ptr<kernels::cuda::Gpu> gpu,
      kernels::cuda::OpenGpu(info, choice.exportable ? kernels::cuda::Sharing::kExportable
                                                     : kernels::cuda::Sharing::kNone));
  ASSIGN_OR_RETURN(const Bytes budget, BudgetOf(*gpu, choice));
  ASSIGN_OR_RETURN(
      std::unique_ptr<CudaDevice> device,
      CudaDevice::Create({.name = choice.name, .number = choice.number, .budget = budget},
                         std::move(gpu), clock));
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace

Result<std::unique_ptr<Device>> OpenCudaDevice(const GpuChoice& choice, const Clock& clock) {
  Result<std::unique_ptr<Device>> opened = Open(choice, clock);
  if (!opened && opened.error().code != ErrorCode::kNotFound) {
    opened.error().message = fmt::format("device {}: {}", choice.name, opened.error().message);
  }
  return opened;
}

std::string CudaBackendState() { return "on"; }

}  // namespace moetier
