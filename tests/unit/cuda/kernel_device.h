#ifndef MOETIER_TESTS_UNIT_CUDA_KERNEL_DEVICE_H_
#define MOETIER_TESTS_UNIT_CUDA_KERNEL_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/cuda/expert_kernels.h"

namespace moetier::kernels::cuda {

// Where the tests and the bench of kernels run: memory, one stream, clock and graphs. A program
// links one implementation: emulated_device.cc here, or cudart_device.cc of tests/gpu.
// Threads: one. Lifetime: Allocate's memory is freed with the device.
class KernelDevice {
 public:
  enum class Memory : uint8_t {
    kDevice,  // the device's own
    kMapped,  // the host's, which kernels read over the link
  };
  struct Facts {
    std::string name;
    uint32_t compute = 0;  // compute capability: 86 for 8.6
    size_t free_bytes = 0;
    size_t cache_bytes = 0;  // of its last level
    bool emulated = false;
  };
  // Puts kernels into stream(); a launch's code that is not 0 ends it.
  using Work = std::function<int()>;

  // kUnavailable, and why, where no device answers. `seed` is the order of the emulator's threads.
  static Result<std::unique_ptr<KernelDevice>> Open(uint64_t seed);
  ~KernelDevice();
  KernelDevice(const KernelDevice&) = delete;
  KernelDevice& operator=(const KernelDevice&) = delete;

  [[nodiscard]] const Facts& facts() const;
  [[nodiscard]] StreamHandle stream() const;

  // 64-byte aligned.
  Result<std::byte*> Allocate(size_t bytes, Memory memory);
  // Between any two memories, in the stream.
  Status Copy(void* to, const void* from, size_t bytes);
  // Until the stream has done all; the first error of its kernels.
  Status Wait();

  // Puts the work into the stream and waits.
  Status Run(const Work& work);
  // Likewise; the seconds that the device took for it.
  Result<double> Seconds(const Work& work);
  // Keeps the work as a graph that Seconds then replays.
  Result<Work> Capture(const Work& work);

 private:
  struct State;
  explicit KernelDevice(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
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

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_TESTS_UNIT_CUDA_KERNEL_DEVICE_H_
