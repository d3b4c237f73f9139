#ifndef MOETIER_TIERS_DEVICE_SLOT_HOMES_H_
#define MOETIER_TIERS_DEVICE_SLOT_HOMES_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "tiers/arena_plan.h"

namespace moetier {

// What one of several devices has for the slots of a model.
struct DeviceRoom {
  Bytes free;     // of its budget
  Bytes granule;  // in which it takes memory: 2^n bytes
};

// Which of several devices each slot of a model lies on. A slot is whole on one device, and each
// device has of every run of slot numbers about the share that it has of the free memory: so the
// highest slots, which retire first, are taken from all of them, and the experts of a layer lie on
// all of them, to be computed side by side.
struct SlotHomes {
  struct Home {
    uint8_t device = 0;
    SlotIndex slot{};  // the device's own number; in the order of ours
  };
  std::vector<std::vector<Home>> homes;  // by size class and slot: a place for each record
  std::vector<ArenaPlan> plans;          // by device: its part of ours
};

// Homes for the plan's slots, of which each device has no more than fit its free memory, and for
// the places beyond, which have no memory yet and take it on the device that they were given: when
// others have taken that device's memory meanwhile, a larger budget is refused, by its name, though
// another device may have room. kExhausted, kNoRoom when a slot fits nowhere: what is free in all
// is in pieces smaller than it. `what` is the budget's name in messages. Preconditions: at least
// one device, at most 256.
Result<SlotHomes> ShareSlots(const ArenaPlan& plan, std::span<const DeviceRoom> rooms,
                             std::string_view what);

}  // namespace moetier

#endif  // MOETIER_TIERS_DEVICE_SLOT_HOMES_H_
