#ifndef MOETIER_TIERS_DEVICE_CUDA_BACKEND_H_
#define MOETIER_TIERS_DEVICE_CUDA_BACKEND_H_

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "tiers/device/device.h"

namespace moetier {

// Which GPU, and how much of it.
struct GpuChoice {
  std::string name = "gpu0";    // of the device
  uint32_t number = 0;          // among the daemon's devices
  std::string uuid;             // empty: the first
  std::optional<Bytes> budget;  // for experts. none: what is free less `reserve`
  Bytes reserve = 4_GiB;
  bool exportable = false;  // its slots may be given to other processes
};

// The GPU as a device. kNotFound where the host has no GPU or no driver of one; kUnavailable, and
// why, where it cannot be used: no such GPU, none that this build has kernels for, a build without
// the CUDA backend. Those messages begin with the device's name. The clock outlives it.
Result<std::unique_ptr<Device>> OpenCudaDevice(const GpuChoice& choice, const Clock& clock);

// "on", or "off (WHY)".
std::string CudaBackendState();

}  // namespace moetier

#endif  // MOETIER_TIERS_DEVICE_CUDA_BACKEND_H_
