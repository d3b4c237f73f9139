#ifndef MOETIER_TIERS_EVICTION_POLICY_H_
#define MOETIER_TIERS_EVICTION_POLICY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"

namespace moetier {

// The place of a key in its ledger's list of keys: dense, so that tables can be plain arrays.
enum class KeyIndex : uint32_t {};

// Where a newly loaded expert enters the eviction order: large batches enter cold, so that they do
// not push out the decode hot set.
enum class Admission : uint8_t { kHot, kCold };

// Says which slots may be taken from their keys at this moment.
class EvictableSlots {
 public:
  virtual ~EvictableSlots() = default;
  [[nodiscard]] virtual bool Contains(SlotIndex slot) const = 0;
};

// Orders the slots of one ledger by how little their keys will be missed. Knows slots and keys by
// number only; the ledger says what happens and asks for a victim. Deterministic.
// Threads: its ledger's. Memory: all taken at creation.
class EvictionPolicy {
 public:
  struct Sizes {
    uint32_t slot_count = 0;
    uint32_t key_count = 0;
    uint32_t used_at_first = 0;  // of the slots; 0: all
  };
  // What is known of the keys before the first step.
  struct Start {
    std::span<const KeyIndex> hot = {};  // for static
    std::span<const double> heat = {};   // for heat: per key, in uses; empty: none
  };

  // `name` is one of
  //   lru      the least recently used slot first
  //   clock    second chance: a hand passes over slots used since it came by last
  //   lfu:W:H  of the W least recently used slots the least often used; the frequency halves every
  //            H steps, never if H is 0; W is at least 1, where it is lru
  //   heat:H   the slot whose key has the least heat first, what came a moment ago included; heat
  //            halves every H steps, never if H is 0, and starts at the prior; `heat` alone has a
  //            half life of 128
  //   static   the `hot` keys (hottest first, at most used_at_first of them), or if there are none
  //            those that come first, stay; all others go first, least recently used first
  // kInvalidArgument names what is allowed.
  static Result<std::unique_ptr<EvictionPolicy>> Create(std::string_view name, const Sizes& sizes,
                                                        const Start& start);
  static Result<std::unique_ptr<EvictionPolicy>> Create(std::string_view name, const Sizes& sizes) {
    return Create(name, sizes, Start{});
  }

  virtual ~EvictionPolicy() = default;

  // A step, which counts from 0 and never falls, asks for the key, resident or not. `heat` is 1 for
  // a use by one token, less where a request of many rows shares one token's heat among its keys.
  virtual void Observe(KeyIndex key, uint64_t step, double heat) = 0;
  // The slot, which was not in the order, now belongs to the key.
  virtual void Admit(SlotIndex slot, KeyIndex key, Admission admission) = 0;
  // The slot, which is in the order, is used again.
  virtual void Touch(SlotIndex slot) = 0;
  // The slot leaves the order.
  virtual void Remove(SlotIndex slot) = 0;
  // Which evictable slot of the order is missed least; it stays in the order until Remove. At least
  // one slot of the order is evictable.
  [[nodiscard]] virtual SlotIndex Victim(const EvictableSlots& evictable) = 0;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_EVICTION_POLICY_H_
