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
  uint64_t offset = 0;   // from the arena's start, the regions standing close
  uint32_t records = 0;  // of the class: more slots than these are no use
};

// How one pool's budget is divided over a model's size classes.
struct ArenaPlan {
  std::vector<ArenaRegion> regions;    // by SizeClass
  Bytes total;                         // what the arena takes
  Bytes budget;                        // what was given
  Bytes least;                         // below this there is no plan
  Bytes rounding_loss;                 // given, wanted by more records, but less than a slot of any
  std::optional<std::string> warning;  // when the loss is above 10 % of the budget
};

// Gives each class the same share of its records, so bytes in proportion to records x slot bytes,
// but at least min(min_slots, its records) and at most its records. kExhausted kBudgetTooSmall says
// how many bytes the least arena takes. A class without records gets no slot.
Result<ArenaPlan> PlanArena(std::span<const SizeClassGeometry> classes, Bytes budget,
                            uint32_t min_slots);

}  // namespace moetier

#endif  // MOETIER_TIERS_ARENA_PLAN_H_
