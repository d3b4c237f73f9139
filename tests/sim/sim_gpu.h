#ifndef MOETIER_TESTS_SIM_SIM_GPU_H_
#define MOETIER_TESTS_SIM_SIM_GPU_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "kernels/cuda/emulated_gpu.h"
#include "tests/sim/gpu_canaries.h"

namespace moetier {

// What a card is asked for that may fail.
enum class CardCall : uint8_t { kWait, kCopy, kRecord, kLaunch, kAddress, kAllocate, kMap, kShow };
inline constexpr uint32_t kCardCalls = 8;

// The `nth` such call fails (from 1 on). Of memory (kAllocate, kMap, kShow) that one alone is
// refused; all else is the end of the card. A wait may hang instead, with the card, until it is
// given up.
struct CardFault {
  CardCall call = CardCall::kWait;
  uint32_t nth = 0;  // 0: never
  bool hangs = false;
};

// What a seed's card is like, and what has become of it. Lifetime: outlives the card.
class SimCard {
 public:
  CardFault fault;
  GpuCanary canary = GpuCanary::kNone;
  kernels::cuda::EmulatedGpu::Options options;

  // The fault has shown itself.
  [[nodiscard]] bool has_failed() const EXCLUDES(mu_);
  // What of it was not given back when it was closed; none while it is open.
  [[nodiscard]] std::optional<std::string> left() const EXCLUDES(mu_);

 private:
  friend class SimGpu;
  mutable Mutex mu_;
  bool failed_ GUARDED_BY(mu_) = false;
  std::optional<std::string> left_ GUARDED_BY(mu_);
};

// The emulated GPU, with the fault and the canary of its card. It notes what is taken of it; what
// is left at its end it tells the card, and gives back. A card that has failed goes on with the
// work that it has been given, as long as somebody waits for any. Threads: those of Gpu.
class SimGpu final : public kernels::cuda::EmulatedGpu {
 public:
  explicit SimGpu(SimCard& card);
  ~SimGpu() override;

  Result<std::byte*> Reserve(size_t bytes) override EXCLUDES(mu_);
  void Unreserve(std::byte* begin, size_t bytes) override EXCLUDES(mu_);
  Status Map(std::byte* begin, size_t bytes) override EXCLUDES(mu_);
  void Unmap(std::byte* begin, size_t bytes) override EXCLUDES(mu_);
  Result<std::byte*> Allocate(size_t bytes) override EXCLUDES(mu_);
  Result<std::byte*> AllocateHost(size_t bytes) override EXCLUDES(mu_);
  void Free(std::byte* block) override EXCLUDES(mu_);
  void FreeHost(std::byte* block) override EXCLUDES(mu_);
  Status ShowHost(std::span<std::byte> memory) override EXCLUDES(mu_);
  void HideHost(std::span<std::byte> memory) override EXCLUDES(mu_);
  Result<const std::byte*> AddressOf(const std::byte* host) override EXCLUDES(mu_);
  Status Copy(void* to, const void* from, size_t bytes, kernels::cuda::StreamHandle stream) override
      EXCLUDES(mu_);
  Status Record(kernels::cuda::EventHandle event, kernels::cuda::StreamHandle stream) override
      EXCLUDES(mu_);
  Status Wait(kernels::cuda::EventHandle event, kernels::cuda::HostWait wait) override
      EXCLUDES(mu_);
  [[nodiscard]] Status CheckLaunch(int code) const override EXCLUDES(mu_);

 private:
  // One copy of the device's stream of copies.
  struct StreamCopy {
    void* to = nullptr;
    const void* from = nullptr;
    size_t bytes = 0;
    kernels::cuda::StreamHandle stream = nullptr;
  };
  enum class Way : uint8_t { kIntoSlot, kOutOfSlot, kOther };

  // The call's error, if it is to fail.
  Status Begin(CardCall call) EXCLUDES(mu_);
  [[nodiscard]] Way WayOf(const StreamCopy& copy) const EXCLUDES(mu_);
  Status CopyNow(const StreamCopy& copy);
  // Work that a canary did not wait for ends: what it uses is about to go.
  void CatchUp() EXCLUDES(mu_);
  void SpoilSlot() EXCLUDES(mu_);

  SimCard& card_;
  const std::vector<std::byte> spoilt_;           // what a canary writes into a slot
  kernels::cuda::StreamHandle canary_ = nullptr;  // a stream of the canary's own
  mutable Mutex mu_;
  uint32_t calls_[kCardCalls] GUARDED_BY(mu_) = {};
  bool dead_ GUARDED_BY(mu_) = false;
  std::map<std::byte*, size_t> reserved_ GUARDED_BY(mu_);  // bytes by where they begin
  std::set<std::byte*> mapped_ GUARDED_BY(mu_);            // granules
  std::set<std::byte*> blocks_ GUARDED_BY(mu_);
  std::set<std::byte*> host_blocks_ GUARDED_BY(mu_);
  std::map<std::byte*, size_t> shown_ GUARDED_BY(mu_);
  std::set<kernels::cuda::EventHandle> not_awaited_ GUARDED_BY(mu_);
  std::optional<StreamCopy> held_back_ GUARDED_BY(mu_);
  std::optional<StreamCopy> last_in_ GUARDED_BY(mu_);
  uint32_t waits_ GUARDED_BY(mu_) = 0;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_SIM_GPU_H_
