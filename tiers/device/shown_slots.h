#ifndef MOETIER_TIERS_DEVICE_SHOWN_SLOTS_H_
#define MOETIER_TIERS_DEVICE_SHOWN_SLOTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "tiers/arena.h"
#include "tiers/device/device.h"
#include "tiers/slot_memory.h"

namespace moetier {

// A RAM arena whose slots a device reads over its link: each is shown to the device as long as it
// has memory, one by one, so that memory comes and goes while others are in use. In the arena's
// place for whoever changes its size.
// Threads:  one at a time; those that load models and change budgets.
// Lifetime: the arena and the device outlive it; its destructor hides what is shown.
class ShownSlots final : public SlotMemory {
 public:
  // Told now and then how many bytes of how many are shown; false ends Create with kCancelled.
  // Empty: nobody is told, as in ArenaOptions.
  using Progress = std::function<bool(Bytes done, Bytes total)>;

  // `slots[c]` of class c, from 0 on, have memory. The device's error, with nothing shown, when one
  // cannot be. A GPU pins some GB a second.
  static Result<std::unique_ptr<ShownSlots>> Create(Device& device, Arena& arena,
                                                    const std::vector<uint32_t>& slots,
                                                    const Progress& progress);
  ~ShownSlots() override;
  ShownSlots(const ShownSlots&) = delete;
  ShownSlots& operator=(const ShownSlots&) = delete;

  [[nodiscard]] uint32_t Places(SizeClass size_class) const override {
    return arena_.Places(size_class);
  }
  void GiveBack(SizeClass size_class, SlotIndex slot) override;
  Status Take(SizeClass size_class, SlotIndex first, uint32_t count) override;

 private:
  ShownSlots(Device& device, Arena& arena) : device_(device), arena_(arena) {}
  // An error shows none of them.
  Status Show(SizeClass size_class, SlotIndex first, uint32_t count);
  void Hide(SizeClass size_class, SlotIndex slot);

  Device& device_;
  Arena& arena_;
  std::vector<std::vector<bool>> shown_;  // by size class and slot
};

}  // namespace moetier

#endif  // MOETIER_TIERS_DEVICE_SHOWN_SLOTS_H_
