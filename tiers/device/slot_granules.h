#ifndef MOETIER_TIERS_DEVICE_SLOT_GRANULES_H_
#define MOETIER_TIERS_DEVICE_SLOT_GRANULES_H_

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "tiers/arena_plan.h"

namespace moetier {

// What the plan's slots take of a device's memory, each class beginning at a granule of its own.
Bytes DeviceMemory(const ArenaPlan& plan, Bytes granule);

// Which granules of one size class's region have memory: those that hold a byte of a slot that has.
// Slots stand side by side from the region's start, so that a granule may be of several slots, and
// a slot of several granules. Pure: says what is to be mapped and unmapped, and remembers it.
// Threads: one at a time; Of, Size and count any, beside it.
class SlotGranules {
 public:
  // Granules that stand side by side, by number from the region's start.
  struct Run {
    uint64_t first = 0;
    uint64_t count = 0;
    friend bool operator==(const Run&, const Run&) = default;
  };

  // `granule` is a power of two, `slot_bytes` not 0. No slot has memory.
  SlotGranules(Bytes slot_bytes, Bytes granule, uint32_t places);

  // The granules that hold bytes of these slots.
  [[nodiscard]] Run Of(SlotIndex first, uint32_t count) const;
  // The granules that `count` slots from `first` on, which have no memory, lack; ascending.
  [[nodiscard]] std::vector<Run> Lacking(SlotIndex first, uint32_t count) const;
  // These slots have memory from now on.
  void Add(SlotIndex first, uint32_t count);
  // The slot has none from now on. Gives the granules that nobody needs any more, none perhaps.
  Run Remove(SlotIndex slot);

  // Of the region: granules for all places.
  [[nodiscard]] uint64_t count() const { return needed_by_.size(); }
  // Granules with memory, how many and which, ascending.
  [[nodiscard]] uint64_t mapped() const { return mapped_; }
  [[nodiscard]] std::vector<Run> Mapped() const;
  [[nodiscard]] Bytes Size(const Run& run) const { return granule_ * run.count; }

 private:
  const Bytes slot_bytes_;
  const Bytes granule_;
  std::vector<bool> has_memory_;     // by slot
  std::vector<uint32_t> needed_by_;  // by granule: slots with memory
  uint64_t mapped_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_DEVICE_SLOT_GRANULES_H_
