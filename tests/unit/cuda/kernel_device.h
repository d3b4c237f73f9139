#ifndef MOETIER_TESTS_UNIT_CUDA_KERNEL_DEVICE_H_
#define MOETIER_TESTS_UNIT_CUDA_KERNEL_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kernels/cuda/gpu.h"
#include "tests/unit/cuda/tested_gpu.h"

namespace moetier::kernels::cuda {

// Where the tests and the bench of kernels run: the tested GPU, with one stream, blocks of memory
// and a clock. Threads: one. Lifetime: Allocate's memory and Capture's graphs are freed with it.
class KernelDevice {
 public:
  enum class Memory : uint8_t {
    kDevice,  // the GPU's own
    kMapped,  // the host's, which kernels read over the link
  };

  // As OpenTestedGpu.
  static Result<std::unique_ptr<KernelDevice>> Open(uint64_t seed);
  ~KernelDevice();
  KernelDevice(const KernelDevice&) = delete;
  KernelDevice& operator=(const KernelDevice&) = delete;

  [[nodiscard]] const GpuInfo& info() const { return gpu_->info(); }
  [[nodiscard]] Result<Bytes> FreeMemory() { return gpu_->FreeMemory(); }
  [[nodiscard]] StreamHandle stream() const { return stream_; }

  // Addresses for kernels and copies, 256-byte aligned.
  Result<std::byte*> Allocate(size_t bytes, Memory memory);
  // Between any two memories, in the stream.
  Status Copy(void* to, const void* from, size_t bytes);
  // Until the stream has done all; the first error of its kernels.
  Status Wait();

  // Puts the work into the stream and waits.
  Status Run(const DeviceWork& work);
  Result<double> Seconds(const DeviceWork& work) { return clock_->Seconds(work); }
  Result<DeviceWork> Capture(const DeviceWork& work) { return clock_->Capture(work); }

 private:
  explicit KernelDevice(std::unique_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}

  std::unique_ptr<Gpu> gpu_;
  StreamHandle stream_ = nullptr;
  EventHandle end_ = nullptr;
  std::unique_ptr<WorkClock> clock_;
  std::vector<std::byte*> blocks_;
  std::vector<std::byte*> host_blocks_;
};

// Memory of `values` on the device, and back.
template <class T>
Result<T*> Upload(KernelDevice& device, const std::vector<T>& values) {
  ASSIGN_OR_RETURN(std::byte* const at,
                   device.Allocate(values.size() * sizeof(T), KernelDevice::Memory::kDevice));
  RETURN_IF_ERROR(device.Copy(at, values.data(), values.size() * sizeof(T)));
  RETURN_IF_ERROR(device.Wait());
  return reinterpret_cast<T*>(at);
}

template <class T>
Result<std::vector<T>> Download(KernelDevice& device, const T* at, size_t count) {
  std::vector<T> values(count);
  RETURN_IF_ERROR(device.Copy(values.data(), at, count * sizeof(T)));
  RETURN_IF_ERROR(device.Wait());
  return values;
}

// Memory for prepared rows, filled with what no kernel may take for data.
Result<PreparedRows> NewRows(KernelDevice& device, uint32_t rows, uint32_t columns);

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_TESTS_UNIT_CUDA_KERNEL_DEVICE_H_
