#ifndef MOETIER_KERNELS_CUDA_EMULATED_GPU_H_
#define MOETIER_KERNELS_CUDA_EMULATED_GPU_H_

#include <chrono>
#include <cstdint>
#include <map>

#include "base/mutex.h"
#include "kernels/cuda/event_wait.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/simt/queues.h"

namespace moetier::kernels::cuda {

// A GPU over the emulator: its memory is the host's, and its work is done when somebody waits, on
// the thread that waits. Addresses without memory cannot be touched, memory that is new holds no
// zeros, and host memory that was not shown has no address for kernels. As on CUDA, a copy is
// refused that leaves a block, mapped memory or what was shown at once, and a GPU that has failed
// refuses everything: what was shown to it stays so.
class EmulatedGpu : public Gpu {
 public:
  struct Options {
    GpuInfo info;
    simt::GridOptions grid;
    size_t granule = size_t{64} << 10;  // bytes, whole pages; GPUs have 2 MiB
    Sharing sharing = Sharing::kNone;
    uint64_t fails_after = 0;  // waits until it fails for good; 0: never
    bool hangs = false;        // it does not fail then, it answers no more
    std::chrono::nanoseconds longest_wait = kLongestWait;
  };
  explicit EmulatedGpu(Options options);
  ~EmulatedGpu() override;

  [[nodiscard]] const GpuInfo& info() const override { return options_.info; }
  Result<Bytes> FreeMemory() override EXCLUDES(mu_);
  Result<std::byte*> Reserve(size_t bytes) override EXCLUDES(mu_);
  void Unreserve(std::byte* begin, size_t bytes) override EXCLUDES(mu_);
  Status Map(std::byte* begin, size_t bytes) override EXCLUDES(mu_);
  void Unmap(std::byte* begin, size_t bytes) override EXCLUDES(mu_);
  [[nodiscard]] size_t granule() const override { return options_.granule; }
  Result<ExportedMemory> Export(std::byte* begin, size_t bytes) override EXCLUDES(mu_);
  Result<std::byte*> Allocate(size_t bytes) override EXCLUDES(mu_);
  Result<std::byte*> AllocateHost(size_t bytes) override EXCLUDES(mu_);
  void Free(std::byte* block) override EXCLUDES(mu_);
  void FreeHost(std::byte* block) override EXCLUDES(mu_);
  Status ShowHost(std::span<std::byte> memory) override EXCLUDES(mu_);
  void HideHost(std::span<std::byte> memory) override EXCLUDES(mu_);
  Result<const std::byte*> AddressOf(const std::byte* host) override EXCLUDES(mu_);
  Result<StreamHandle> NewStream() override;
  Result<EventHandle> NewEvent() override;
  Status Copy(void* to, const void* from, size_t bytes, StreamHandle stream) override EXCLUDES(mu_);
  Status Record(EventHandle event, StreamHandle stream) override EXCLUDES(mu_);
  Status Wait(EventHandle event, HostWait wait) override EXCLUDES(mu_);
  void WaitIdle(StreamHandle stream) override EXCLUDES(mu_);
  // It answers no wait any more that begins or goes on.
  void Hang() EXCLUDES(mu_);
  [[nodiscard]] Status CheckLaunch(int code) const override;

 private:
  // Until it does not hang; an error when the time is up.
  Status AwaitAnswer(HostWait wait) EXCLUDES(mu_);
  using Ranges = std::map<const std::byte*, size_t>;  // bytes by where they begin
  Status Take(size_t bytes) REQUIRES(mu_);
  Status MapGranule(std::byte* at) REQUIRES(mu_);
  void UnmapGranules(std::byte* begin, size_t bytes) REQUIRES(mu_);
  [[nodiscard]] Status CheckAlive() const REQUIRES(mu_);
  [[nodiscard]] Status CheckCopied(const std::byte* begin, size_t bytes) const REQUIRES(mu_);

  const Options options_;
  simt::Device device_;
  Mutex mu_;
  size_t taken_ GUARDED_BY(mu_) = 0;  // of the GPU's memory
  Ranges reserved_ GUARDED_BY(mu_);
  // Granules, each with its memory, which outlives its mapping as long as somebody else has it.
  std::map<const std::byte*, UniqueFd> mapped_ GUARDED_BY(mu_);
  Ranges blocks_ GUARDED_BY(mu_);  // of Allocate
  Ranges shown_ GUARDED_BY(mu_);   // and AllocateHost's
  uint64_t waits_ GUARDED_BY(mu_) = 0;
  bool failed_ GUARDED_BY(mu_) = false;
  bool hangs_ GUARDED_BY(mu_) = false;
};

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_EMULATED_GPU_H_
