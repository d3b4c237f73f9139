#ifndef MOETIER_TESTS_SUPPORT_WATCHING_DEVICE_H_
#define MOETIER_TESTS_SUPPORT_WATCHING_DEVICE_H_

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "tiers/device/device.h"

namespace moetier::testing {

// A device that computes nothing: it remembers what of the host it was shown, has addresses for
// slots, and refuses when told to. Threads: one.
class WatchingDevice final : public Device {
 public:
  void Start(DeviceListener& /*listener*/) override {}
  void Stop() override {}
  [[nodiscard]] const DeviceDescription& description() const override { return description_; }
  [[nodiscard]] Bytes free() const override { return budget; }
  Status Admit(const kernels::ExpertShape& /*shape*/,
               const kernels::RecordLayout& /*layout*/) override {
    if (admits) return Ok{};
    return Error{ErrorCode::kFailedPrecondition, Reason::kUnsupportedType, "no such experts"};
  }
  Status ShowHost(std::span<std::byte> memory) override {
    if (may_show-- == 0) {
      return Error{ErrorCode::kUnavailable, Reason::kIo, "no more may be shown"};
    }
    MOE_CHECK(shown.emplace(memory.data(), memory.size()).second, "shown twice");
    return Ok{};
  }
  void HideHost(std::span<std::byte> memory) override {
    MOE_CHECK(shown.erase(memory.data()) == 1, "hidden and not shown");
  }
  Result<std::unique_ptr<DeviceArena>> Allocate(const ArenaPlan& plan,
                                                std::string_view what) override {
    if (plan.total <= has) return std::unique_ptr<DeviceArena>(std::make_unique<Slots>(plan));
    return Error{ErrorCode::kExhausted, Reason::kMemoryLimit,
                 fmt::format("{}: no more memory", what)};
  }
  void Copy(CopyId /*id*/, const DeviceCopy& /*copy*/) override {}
  void CancelCopy(CopyId /*id*/) override {}
  void Run(RunId /*id*/, std::vector<DeviceTask> /*tasks*/) override {}

  bool admits = true;
  Bytes budget;
  Bytes has;                           // memory for each arena
  std::map<std::byte*, size_t> shown;  // bytes by address
  int may_show = 1000;                 // times

 private:
  class Slots final : public DeviceArena {
   public:
    explicit Slots(const ArenaPlan& plan) : plan_(plan) {}
    [[nodiscard]] uint32_t Places(SizeClass size_class) const override {
      return plan_.regions[Raw(size_class)].slots;
    }
    [[nodiscard]] DeviceAddress Slot(SizeClass size_class, SlotIndex slot) const override {
      const ArenaRegion& region = plan_.regions[Raw(size_class)];
      return DeviceAddress{region.offset + (region.slot_bytes * Raw(slot)).count()};
    }
    void GiveBack(SizeClass /*size_class*/, SlotIndex /*slot*/) override {}
    Status Take(SizeClass /*size_class*/, SlotIndex /*first*/, uint32_t /*count*/) override {
      return Error{ErrorCode::kExhausted, Reason::kNoRoom, "no more slots"};
    }
    [[nodiscard]] Bytes size() const override { return plan_.total; }

   private:
    const ArenaPlan plan_;
  };

  DeviceDescription description_;
};

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_SUPPORT_WATCHING_DEVICE_H_
