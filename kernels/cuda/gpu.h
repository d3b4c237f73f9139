#ifndef MOETIER_KERNELS_CUDA_GPU_H_
#define MOETIER_KERNELS_CUDA_GPU_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/exported_memory.h"
#include "base/result.h"
#include "kernels/cuda/expert_kernels.h"

namespace moetier::kernels::cuda {

struct GpuInfo {
  uint32_t ordinal = 0;
  std::string uuid;  // "GPU-" and 36 characters, as nvidia-smi prints it
  std::string name;
  uint32_t compute = 0;    // compute capability: 86 for 8.6
  Bytes memory;            // all of it
  double memory_rate = 0;  // bytes a second by the card's data sheet; 0: it does not say
};

using EventHandle = void*;  // a cudaEvent_t, or an event of the emulator

// How the host waits: by looking at it all the time, or with sleeps between, which takes tens of
// microseconds more. Both give the GPU up after kLongestWait (event_wait.h).
enum class HostWait : uint8_t { kSpin, kSleep };

// Whether other processes may be given a GPU's mapped memory.
enum class Sharing : uint8_t { kNone, kExportable };

// What this project needs of CUDA's runtime, for one GPU: memory, streams, copies, events. Kernels
// are put into its streams by the launches of expert_kernels.h, on a thread that has called a
// method of this GPU last. A program links one implementation: CUDA's runtime (nvcc/), or the
// emulator's (emulated_gpu.h).
// Errors:  kExhausted for memory; any other says that the GPU cannot be used any more.
// Threads: every method from any; work of one stream from one thread at a time.
class Gpu {
 public:
  virtual ~Gpu() = default;
  [[nodiscard]] virtual const GpuInfo& info() const = 0;
  // Of its memory, in nobody's use now.
  virtual Result<Bytes> FreeMemory() = 0;

  // Addresses of the GPU without memory behind them; `bytes` is a multiple of granule().
  virtual Result<std::byte*> Reserve(size_t bytes) = 0;
  virtual void Unreserve(std::byte* begin, size_t bytes) = 0;  // nothing is mapped there any more
  // Memory behind whole granules of reserved addresses. kExhausted: none of it is.
  virtual Status Map(std::byte* begin, size_t bytes) = 0;
  virtual void Unmap(std::byte* begin, size_t bytes) = 0;
  [[nodiscard]] virtual size_t granule() const = 0;  // bytes
  // Of whole granules that have memory. kFailedPrecondition, kBadConfig when it was not opened as
  // kExportable; kUnimplemented, kNotYet when its driver cannot. Takes as long as the driver does,
  // a call a granule.
  virtual Result<ExportedMemory> Export(std::byte* begin, size_t bytes) = 0;

  // A block of the GPU's memory, or of the host's that both use, until Free. 256-byte aligned.
  virtual Result<std::byte*> Allocate(size_t bytes) = 0;
  virtual Result<std::byte*> AllocateHost(size_t bytes) = 0;
  virtual void Free(std::byte* block) = 0;
  virtual void FreeHost(std::byte* block) = 0;

  // Whole pages of the host's memory, which kernels may read from then on. Several GPUs may be
  // shown the same; each has it until it is hidden from that one. HideHost does nothing about what
  // this GPU was not shown, and may wait in the driver until other work of the GPUs is done.
  virtual Status ShowHost(std::span<std::byte> memory) = 0;
  virtual void HideHost(std::span<std::byte> memory) = 0;
  // Where kernels find what was shown, or AllocateHost's.
  virtual Result<const std::byte*> AddressOf(const std::byte* host) = 0;

  // Both live as long as the GPU.
  virtual Result<StreamHandle> NewStream() = 0;
  virtual Result<EventHandle> NewEvent() = 0;
  // Between any two of: the GPU's memory, the host's.
  virtual Status Copy(void* to, const void* from, size_t bytes, StreamHandle stream) = 0;
  virtual Status Record(EventHandle event, StreamHandle stream) = 0;
  // Until the stream has come to the latest Record. An error may be of any earlier work. A GPU that
  // was given up refuses everything, and keeps its memory and what was shown to it until the
  // process ends: the driver would wait for it to take them back.
  virtual Status Wait(EventHandle event, HostWait wait) = 0;
  // After an error: until nothing that was put into the stream is still to be done or under way,
  // because it is done or because the GPU does no more work. Returns early when the GPU is given
  // up.
  virtual void WaitIdle(StreamHandle stream) = 0;
  // The error of a launch's code; Ok for 0.
  [[nodiscard]] virtual Status CheckLaunch(int code) const = 0;
};

// The GPUs of this host that the kernels of this build can use. When there are none, kNotFound for
// a host without a GPU or its driver, kUnavailable, and why, for what cannot be used.
Result<std::vector<GpuInfo>> FindGpus();
Result<std::unique_ptr<Gpu>> OpenGpu(const GpuInfo& gpu, Sharing sharing);

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_GPU_H_
