#ifndef MOETIER_TIERS_DEVICE_DEVICE_GROUP_H_
#define MOETIER_TIERS_DEVICE_DEVICE_GROUP_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "tiers/device/device.h"

namespace moetier {

// Several devices as one, each with its own budget. A model's slots lie on all of them
// (tiers/device/slot_homes.h); a copy goes to the device of its slot; a run over slots is computed
// by the devices that have them, side by side, and one over RAM is divided by what their links
// carry. With one of them all are lost: what VRAM has is one pool, whose ledgers know no half.
// Addresses are the member's with its number in the topmost byte, which no device uses.
// Threads:  its members'.
class DeviceGroup final : public Device {
 public:
  static constexpr size_t kMost = 16;

  // Two devices at least, kMost at most.
  explicit DeviceGroup(std::vector<std::unique_ptr<Device>> devices);
  ~DeviceGroup() override;

  void Start(DeviceListener& listener) override;
  void Stop() override;
  [[nodiscard]] const DeviceDescription& description() const override { return description_; }
  [[nodiscard]] Bytes free() const override;
  [[nodiscard]] std::vector<const Device*> cards() const override;
  // Of each of them: one that cannot makes all of them refuse.
  Status Admit(const kernels::ExpertShape& shape, const kernels::RecordLayout& layout) override;
  Status ShowHost(std::span<std::byte> memory) override;
  void HideHost(std::span<std::byte> memory) override;
  Result<std::unique_ptr<DeviceArena>> Allocate(const ArenaPlan& plan,
                                                std::string_view what) override;
  void Copy(CopyId id, const DeviceCopy& copy) override EXCLUDES(mu_);
  void CancelCopy(CopyId id) override EXCLUDES(mu_);
  void Run(RunId id, std::vector<DeviceTask> tasks) override EXCLUDES(mu_);

 private:
  class Member;
  class GroupArena;
  // A run whose parts are on their way.
  struct PartedRun {
    size_t parts = 0;  // unfinished
    RunDone done;      // of those that have ended
  };
  using Parts = std::vector<std::vector<DeviceTask>>;  // by member

  [[nodiscard]] Parts Divide(std::vector<DeviceTask> tasks) const;
  void OnCopy(const CopyDone& done) EXCLUDES(mu_);
  void OnRun(const RunDone& done) EXCLUDES(mu_);
  void OnLost(size_t member, const Error& why) EXCLUDES(mu_);
  // Ok unless it is lost.
  [[nodiscard]] Status Usable() const EXCLUDES(mu_);

  const std::vector<std::unique_ptr<Device>> devices_;
  const DeviceDescription description_;
  std::vector<std::unique_ptr<Member>> members_;  // by device: who listens to it
  DeviceListener* listener_ = nullptr;            // set by Start, before the members' threads

  mutable Mutex mu_;
  std::unordered_map<CopyId, size_t> copies_ GUARDED_BY(mu_);  // unfinished: which member has it
  std::unordered_map<RunId, PartedRun> runs_ GUARDED_BY(mu_);
  // The first member that was lost, which ends what comes later, and why.
  std::optional<size_t> lost_member_ GUARDED_BY(mu_);
  std::optional<Error> lost_ GUARDED_BY(mu_);
};

}  // namespace moetier

#endif  // MOETIER_TIERS_DEVICE_DEVICE_GROUP_H_
