#ifndef MOETIER_TIERS_ARENA_PLAN_H_
#define MOETIER_TIERS_ARENA_PLAN_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "tiers/store/model_geometry.h"

namespace moetier {

// The region of one size class: `slots` equal places, one after another.
struct ArenaRegion {
  Bytes slot_bytes;  // a multiple of kRecordAlignment
  uint32_t slots = 0;
  uint64_t offset = 0;   // from the arena's start: the regions stand as close as granules let them
  uint32_t records = 0;  // of the class: more slots than these are no use
};

// How one pool's budget is divided over a model's size classes.
struct ArenaPlan {
  std::vector<ArenaRegion> regions;    // by SizeClass
  Bytes total;                         // what the arena takes, in whole granules
  Bytes budget;                        // what was given
  Bytes least;                         // below this there is no plan
  Bytes rounding_loss;                 // given, wanted by more records, but less than the next slot
  std::optional<std::string> warning;  // when the loss is above 10 % of the budget
};

// Gives each class the same share of its records, so bytes in proportion to records x slot bytes,
// but at least min(min_slots, its records) and at most its records. A larger budget gives no class
// fewer slots: the next slot is always the worst served class's, and where it does not fit the rest
// is left. Each class's slots together take whole granules, of 2^n bytes. kExhausted
// kBudgetTooSmall says how many bytes the least arena takes. A class without records gets no slot.
Result<ArenaPlan> PlanArena(std::span<const SizeClassGeometry> classes, Bytes budget,
                            uint32_t min_slots, Bytes granule = Bytes(kRecordAlignment));

}  // namespace moetier

#endif  // MOETIER_TIERS_ARENA_PLAN_H_
