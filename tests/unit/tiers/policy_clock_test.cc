#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "tiers/clock_policy.h"

namespace moetier {
namespace {

// A clock of four slots with the keys in them, as the published vectors use it.
class Dial final : public EvictableSlots {
 public:
  // Keys 10 to 13 in slots 0 to 3, all marks cleared by a round of the hand, which ends at slot 0.
  Dial() : policy_(4) {
    for (uint32_t i = 0; i < 4; ++i) {
      owners_.push_back(10 + i);
      policy_.Admit(SlotIndex{i}, KeyIndex{10 + i}, Admission::kCold);
    }
  }

  void Touch(uint32_t key) { policy_.Touch(SlotOf(key)); }

  // Puts the key in place of a victim and returns that.
  uint32_t Admit(uint32_t key, std::set<uint32_t> protect = {}) {
    protected_ = std::move(protect);
    const SlotIndex slot = policy_.Victim(*this);
    const uint32_t victim = owners_[Raw(slot)];
    policy_.Remove(slot);
    policy_.Admit(slot, KeyIndex{key}, Admission::kHot);
    owners_[Raw(slot)] = key;
    return victim;
  }

  [[nodiscard]] bool Contains(SlotIndex slot) const override {
    return !protected_.contains(owners_[Raw(slot)]);
  }
  [[nodiscard]] const std::vector<uint32_t>& owners() const { return owners_; }

 private:
  [[nodiscard]] SlotIndex SlotOf(uint32_t key) const {
    uint32_t slot = 0;
    while (owners_.at(slot) != key) ++slot;
    return SlotIndex{slot};
  }

  ClockPolicy policy_;
  std::vector<uint32_t> owners_;
  std::set<uint32_t> protected_;
};

TEST_CASE("clock: the published vectors hold while a slot may go", "[tiers]") {
  Dial dial;
  dial.Touch(10);
  CHECK(dial.Admit(20) == 11);  // 10 had its mark and loses it
  CHECK(dial.Admit(21, {12}) == 13);
  CHECK(dial.owners() == std::vector<uint32_t>{10, 20, 12, 21});
}

TEST_CASE("clock: a protected slot keeps its mark", "[tiers]") {
  Dial dial;
  dial.Touch(10);
  dial.Touch(11);
  CHECK(dial.Admit(20, {10}) == 12);  // clears 11, not 10; the hand is at 13
  CHECK(dial.Admit(21) == 13);
  CHECK(dial.Admit(22) == 11);  // 10 is marked still and loses its mark only now
  CHECK(dial.Admit(23, {20, 21, 22}) == 10);
}

TEST_CASE("clock: when all are marked the hand comes round to where it started", "[tiers]") {
  Dial dial;
  for (uint32_t key = 10; key < 14; ++key) dial.Touch(key);
  CHECK(dial.Admit(20) == 10);
  CHECK(dial.Admit(21) == 11);
}

}  // namespace
}  // namespace moetier
