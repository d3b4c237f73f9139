#include <chrono>
#include <cstdlib>
#include <new>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/simt/queues.h"
#include "tests/unit/cuda/kernel_device.h"

// The emulator as a KernelDevice. Each block of memory is one of the heap's, so that
// AddressSanitizer knows its end.

namespace moetier::kernels::cuda {

struct KernelDevice::State {
  explicit State(uint64_t seed) : device({.seed = seed}), stream(device.NewStream()) {}
  ~State() {
    for (void* block : blocks) std::free(block);
  }

  simt::Device device;
  simt::Stream& stream;
  std::vector<void*> blocks;
  Facts facts = {.name = "the emulator",
                 .free_bytes = size_t{1} << 30,
                 .cache_bytes = size_t{1} << 16,
                 .emulated = true};
};

KernelDevice::KernelDevice(std::unique_ptr<State> state) : state_(std::move(state)) {}
KernelDevice::~KernelDevice() = default;

Result<std::unique_ptr<KernelDevice>> KernelDevice::Open(uint64_t seed) {
  return std::unique_ptr<KernelDevice>(new KernelDevice(std::make_unique<State>(seed)));
}

const KernelDevice::Facts& KernelDevice::facts() const { return state_->facts; }
StreamHandle KernelDevice::stream() const { return &state_->stream; }

Result<std::byte*> KernelDevice::Allocate(size_t bytes, Memory) {
  void* block = nullptr;
  MOE_CHECK(posix_memalign(&block, 64, bytes) == 0, "no memory for {} bytes", bytes);
  state_->blocks.push_back(block);
  return static_cast<std::byte*>(block);
}

Status KernelDevice::Copy(void* to, const void* from, size_t bytes) {
  state_->device.Copy(to, from, bytes, state_->stream);
  return Ok{};
}

Status KernelDevice::Wait() { return state_->device.Synchronise(); }

Status KernelDevice::Run(const Work& work) {
  if (const int code = work(); code != 0) {
    return Error{ErrorCode::kInternal, Reason::kUnspecified,
                 fmt::format("a launch is refused with code {}", code)};
  }
  return Wait();
}

Result<double> KernelDevice::Seconds(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(Run(work));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Result<KernelDevice::Work> KernelDevice::Capture(const Work& work) { return work; }

}  // namespace moetier::kernels::cuda
