#ifndef MOETIER_TESTS_SIM_SIM_DEVICE_H_
#define MOETIER_TESTS_SIM_SIM_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/expert_kernels.h"
#include "tests/sim/executor_canaries.h"
#include "tests/sim/sim_trace.h"
#include "tests/support/random.h"
#include "tiers/device/device.h"

namespace moetier {

// A device whose copies and runs end when the simulation says so, each queue in its order. Bytes
// move and rows are computed at the end, not before, so that whatever was taken away too early
// shows; until then destinations in RAM hold garbage.
// Threads: one.
class SimDevice final : public Device {
 public:
  // Percent.
  struct Faults {
    uint32_t failed_copy = 0;
    uint32_t failed_run = 0;
    uint32_t late = 0;  // of cancelled copies: they end as if they were not
  };

  SimDevice(DeviceDescription description, const kernels::ExpertKernels& kernels,
            ExecutorCanary canary, SimTrace& trace);
  ~SimDevice() override;

  void Use(const Faults& faults) { faults_ = faults; }
  // Ends a copy or a run, the oldest of either; false when there is none.
  bool AdvanceCopies(Random& random);
  bool AdvanceRuns(Random& random);
  // Its memory is gone. The listener is told by TellLoss: until then work may end as failed.
  void Lose();
  void TellLoss();
  [[nodiscard]] bool lost() const { return lost_; }
  // Loss that the listener does not know of yet.
  [[nodiscard]] bool HasNews() const { return lost_ && !told_; }

  // Of all copies, in their order.
  [[nodiscard]] uint64_t copies_taken() const { return copies_ended_ + copies_.size(); }
  [[nodiscard]] uint64_t copies_ended() const { return copies_ended_; }
  // A copy has failed, once at least.
  [[nodiscard]] bool HasFailed() const { return has_failed_; }

  // A slot's bytes, and whether a copy is under way from or to it.
  [[nodiscard]] std::span<std::byte> Memory(DeviceAddress address, size_t bytes);
  [[nodiscard]] bool IsCopying(DeviceAddress address) const;
  // A copy or a run under way touches the slot.
  [[nodiscard]] bool IsInUse(DeviceAddress address) const;

  void Start(DeviceListener& listener) override { listener_ = &listener; }
  void Stop() override {}
  [[nodiscard]] const DeviceDescription& description() const override { return description_; }
  [[nodiscard]] Bytes free() const override { return description_.budget - taken_; }
  Status Admit(const kernels::ExpertShape& /*shape*/,
               const kernels::RecordLayout& /*layout*/) override {
    return Ok{};
  }
  Status ShowHost(std::span<std::byte> /*memory*/) override { return Ok{}; }
  void HideHost(std::span<std::byte> /*memory*/) override {}
  Result<std::unique_ptr<DeviceArena>> Allocate(const ArenaPlan& plan,
                                                std::string_view what) override;
  void Copy(CopyId id, const DeviceCopy& copy) override;
  void CancelCopy(CopyId id) override;
  void Run(RunId id, std::vector<DeviceTask> tasks) override;

 private:
  class SimArena;
  struct QueuedCopy {
    CopyId id{};
    DeviceCopy copy;
    bool cancelled = false;
  };
  struct QueuedRun {
    RunId id{};
    std::vector<DeviceTask> tasks;
  };
  // Bytes that a canary writes when they are nobody's business any more.
  struct LateBytes {
    DeviceAddress to{};
    std::vector<std::byte> bytes;
    uint32_t after = 0;
  };

  DeviceOutcome End(const QueuedCopy& queued, Random& random);
  void Perform(const QueuedCopy& queued, Random& random);
  void PerformIn(const CopyIn& in, Random& random);
  void Spoil(const DeviceCopy& copy, Random& random);
  DeviceOutcome End(const QueuedRun& queued, Random& random);
  void Compute(const DeviceTask& task);
  void WriteLateBytes();

  const DeviceDescription description_;
  const kernels::ExpertKernels& kernels_;
  const ExecutorCanary canary_;
  SimTrace& trace_;
  DeviceListener* listener_ = nullptr;
  Faults faults_;
  Bytes taken_;
  std::vector<std::byte> memory_;
  std::deque<QueuedCopy> copies_;
  std::deque<QueuedRun> runs_;
  std::vector<LateBytes> late_;
  uint64_t copies_ended_ = 0;
  bool has_failed_ = false;
  bool lost_ = false;
  bool told_ = false;
  kernels::ActivationRows h_;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_SIM_DEVICE_H_
