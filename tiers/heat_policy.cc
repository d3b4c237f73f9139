#include "tiers/heat_policy.h"

#include <algorithm>

#include "base/check.h"

namespace moetier {

HeatPolicy::HeatPolicy(const Sizes& sizes, uint32_t half_life, std::span<const double> prior)
    : heat_(sizes.key_count, half_life),
      slot_of_(sizes.key_count, SlotOrder::kNone),
      places_(sizes.slot_count),
      cold_(sizes.slot_count) {
  heap_.reserve(sizes.slot_count);
  frontier_.reserve(sizes.slot_count);
  for (uint32_t i = 0; i < prior.size(); ++i) heat_.Add(KeyIndex{i}, prior[i]);
}

void HeatPolicy::Observe(KeyIndex key, uint64_t step, double heat) {
  const bool scaled = heat_.Advance(step);
  if (scaled) {
    // From the last parent to the root each part below is in order already.
    for (size_t at = heap_.size() / 2; at > 0; --at) Sink(static_cast<uint32_t>(at - 1));
  }
  heat_.Add(key, heat);
  const SlotIndex slot = slot_of_[Raw(key)];
  if (slot == SlotOrder::kNone) return;
  if (const uint32_t at = places_[Raw(slot)].in_heap; at != kNowhere) Settle(at);
}

void HeatPolicy::Admit(SlotIndex slot, KeyIndex key, Admission admission) {
  Place& place = places_[Raw(slot)];
  MOE_CHECK(place.in_heap == kNowhere, "slot {} is in the order already", Raw(slot));
  slot_of_[Raw(key)] = slot;
  place.key = key;
  place.used_at = ++uses_;
  if (admission == Admission::kHot) {
    Push(slot);
  } else {
    cold_.PushCold(slot);
  }
}

void HeatPolicy::Touch(SlotIndex slot) {
  Place& place = places_[Raw(slot)];
  place.used_at = ++uses_;
  if (place.in_heap != kNowhere) return Settle(place.in_heap);
  cold_.Remove(slot);
  Push(slot);
}

void HeatPolicy::Remove(SlotIndex slot) {
  Place& place = places_[Raw(slot)];
  slot_of_[Raw(place.key)] = SlotOrder::kNone;
  const uint32_t at = place.in_heap;
  if (at == kNowhere) return cold_.Remove(slot);
  place.in_heap = kNowhere;
  const SlotIndex last = heap_.back();
  heap_.pop_back();
  if (last == slot) return;
  Put(at, last);
  Settle(at);
}

SlotIndex HeatPolicy::Victim(const EvictableSlots& evictable) {
  for (SlotIndex slot = cold_.coldest(); slot != SlotOrder::kNone; slot = cold_.Hotter(slot)) {
    if (evictable.Contains(slot)) return slot;
  }
  return ColdestInHeap(evictable);
}

SlotIndex HeatPolicy::ColdestInHeap(const EvictableSlots& evictable) {
  // The slots in falling coldness, until one may go: the next is always among the children of
  // those looked at.
  const auto warmer = [this](uint32_t a, uint32_t b) { return Colder(heap_[b], heap_[a]); };
  frontier_.clear();
  const auto look_at = [&](size_t at) {
    if (at >= heap_.size()) return;
    frontier_.push_back(static_cast<uint32_t>(at));
    std::push_heap(frontier_.begin(), frontier_.end(), warmer);
  };
  look_at(0);
  while (!frontier_.empty()) {
    std::pop_heap(frontier_.begin(), frontier_.end(), warmer);
    const size_t at = frontier_.back();
    frontier_.pop_back();
    if (evictable.Contains(heap_[at])) return heap_[at];
    look_at(2 * at + 1);
    look_at(2 * at + 2);
  }
  CheckFailed(__FILE__, __LINE__, "a slot is evictable",
              "a victim was asked for and no slot is evictable");
}

bool HeatPolicy::Colder(SlotIndex a, SlotIndex b) const {
  const Place& first = places_[Raw(a)];
  const Place& second = places_[Raw(b)];
  const double heat = heat_.Weight(first.key);
  const double other = heat_.Weight(second.key);
  return heat != other ? heat < other : first.used_at < second.used_at;
}

void HeatPolicy::Push(SlotIndex slot) {
  heap_.push_back(slot);
  const auto at = static_cast<uint32_t>(heap_.size() - 1);
  Put(at, slot);
  Settle(at);
}

// Moves the slot there, the only one that may be out of order, to where it belongs.
void HeatPolicy::Settle(uint32_t at) { Sink(Rise(at)); }

uint32_t HeatPolicy::Rise(uint32_t at) {
  const SlotIndex slot = heap_[at];
  while (at > 0 && Colder(slot, heap_[(at - 1) / 2])) {
    Put(at, heap_[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  Put(at, slot);
  return at;
}

void HeatPolicy::Sink(uint32_t at) {
  const SlotIndex slot = heap_[at];
  while (size_t{2} * at + 1 < heap_.size()) {
    uint32_t child = 2 * at + 1;
    if (child + 1 < heap_.size() && Colder(heap_[child + 1], heap_[child])) ++child;
    if (!Colder(heap_[child], slot)) break;
    Put(at, heap_[child]);
    at = child;
  }
  Put(at, slot);
}

void HeatPolicy::Put(uint32_t at, SlotIndex slot) {
  heap_[at] = slot;
  places_[Raw(slot)].in_heap = at;
}

}  // namespace moetier
