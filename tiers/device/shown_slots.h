#ifndef MOETIER_TIERS_DEVICE_SHOWN_SLOTS_H_
#define MOETIER_TIERS_DEVICE_SHOWN_SLOTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "tiers/arena.h"
#include "tiers/device/device.h"

namespace moetier {

// The slots of a RAM arena that a device may read over its link: shown one by one, so that a slot's
// memory can be given back while others are in use.
// Threads:  one at a time; those that load models and change budgets.
// Lifetime: the arena and the device outlive it; its destructor hides what is shown.
class ShownSlots {
 public:
  // Every slot that has memory, `slots[c]` from 0 on in class c. The device's error, with nothing
  // shown, when one cannot be.
  static Result<std::unique_ptr<ShownSlots>> Create(Device& device, const Arena& arena,
                                                    const std::vector<uint32_t>& slots);
  ~ShownSlots();
  ShownSlots(const ShownSlots&) = delete;
  ShownSlots& operator=(const ShownSlots&) = delete;

  // Slots that have memory now. An error shows none of them.
  Status Show(SizeClass size_class, SlotIndex first, uint32_t count);
  // A slot whose memory is to be given back; no effect when it is not shown.
  void Hide(SizeClass size_class, SlotIndex slot);

 private:
  ShownSlots(Device& device, const Arena& arena) : device_(device), arena_(arena) {}

  Device& device_;
  const Arena& arena_;
  std::vector<std::vector<bool>> shown_;  // by size class and slot
};

}  // namespace moetier

#endif  // MOETIER_TIERS_DEVICE_SHOWN_SLOTS_H_
