#include "tests/unit/cuda/kernel_device.h"

#include <limits>
#include <utility>

namespace moetier::kernels::cuda {

Result<std::unique_ptr<KernelDevice>> KernelDevice::Open(uint64_t seed) {
  ASSIGN_OR_RETURN(std::unique_ptr<Gpu> gpu, OpenTestedGpu(seed));
  std::unique_ptr<KernelDevice> device(new KernelDevice(std::move(gpu)));
  ASSIGN_OR_RETURN(device->stream_, device->gpu_->NewStream());
  ASSIGN_OR_RETURN(device->end_, device->gpu_->NewEvent());
  ASSIGN_OR_RETURN(device->clock_, NewWorkClock(*device->gpu_, device->stream_));
  return device;
}

KernelDevice::~KernelDevice() {
  for (std::byte* block : blocks_) gpu_->Free(block);
  for (std::byte* block : host_blocks_) gpu_->FreeHost(block);
}

Result<std::byte*> KernelDevice::Allocate(size_t bytes, Memory memory) {
  if (memory == Memory::kDevice) {
    ASSIGN_OR_RETURN(std::byte* const block, gpu_->Allocate(bytes));
    return blocks_.emplace_back(block);
  }
  ASSIGN_OR_RETURN(std::byte* const block, gpu_->AllocateHost(bytes));
  host_blocks_.push_back(block);
  ASSIGN_OR_RETURN(const std::byte* const seen, gpu_->AddressOf(block));
  return const_cast<std::byte*>(seen);  // NOLINT: kernels may write there too
}

Status KernelDevice::Copy(void* to, const void* from, size_t bytes) {
  return gpu_->Copy(to, from, bytes, stream_);
}

Status KernelDevice::Wait() {
  RETURN_IF_ERROR(gpu_->Record(end_, stream_));
  return gpu_->Wait(end_, HostWait::kSpin);
}

Status KernelDevice::Run(const DeviceWork& work) {
  RETURN_IF_ERROR(gpu_->CheckLaunch(work()));
  return Wait();
}

Result<PreparedRows> NewRows(KernelDevice& device, uint32_t rows, uint32_t columns) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  PreparedRows made{};
  made.columns = columns;
  made.blocks = (columns + 31) / 32;
  const size_t all = size_t{rows} * made.blocks;
  ASSIGN_OR_RETURN(made.values, Upload(device, std::vector<float>(32 * all, kNan)));
  ASSIGN_OR_RETURN(made.codes, Upload(device, std::vector<int8_t>(32 * all, 99)));
  ASSIGN_OR_RETURN(made.scales, Upload(device, std::vector<float>(all, kNan)));
  ASSIGN_OR_RETURN(made.scaled_sums, Upload(device, std::vector<float>(all, kNan)));
  ASSIGN_OR_RETURN(made.half_sums, Upload(device, std::vector<int32_t>(2 * all, 123456)));
  return made;
}

}  // namespace moetier::kernels::cuda
