#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <vector>

#include "tests/support/ledger_script.h"
#include "tiers/eviction_policy.h"

namespace moetier {
namespace {

// All slots are evictable but the kept ones.
class AllBut final : public EvictableSlots {
 public:
  explicit AllBut(std::set<uint32_t> kept = {}) : kept_(std::move(kept)) {}
  [[nodiscard]] bool Contains(SlotIndex slot) const override { return !kept_.contains(Raw(slot)); }

 private:
  std::set<uint32_t> kept_;
};

std::unique_ptr<EvictionPolicy> Make(std::string_view name, const std::vector<KeyIndex>& hot = {}) {
  return EvictionPolicy::Create(name, {.slot_count = 4, .key_count = 8}, {.hot = hot}).value();
}

// Key i goes to slot i, the first use of each.
void Fill(EvictionPolicy& policy, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    policy.Observe(KeyIndex{i}, 0, 1);
    policy.Admit(SlotIndex{i}, KeyIndex{i}, Admission::kHot);
  }
}

uint32_t Evict(EvictionPolicy& policy, std::set<uint32_t> kept = {}) {
  const SlotIndex victim = policy.Victim(AllBut(std::move(kept)));
  policy.Remove(victim);
  return Raw(victim);
}

TEST_CASE("lru: the least recently used slot goes first", "[tiers]") {
  const auto policy = Make("lru");
  Fill(*policy, 4);
  policy->Touch(SlotIndex{0});
  CHECK(Evict(*policy, {1}) == 2);
  CHECK(Evict(*policy) == 1);
  CHECK(Evict(*policy) == 3);
  CHECK(Evict(*policy) == 0);
}

TEST_CASE("lru: what enters cold goes before what was there, until it is touched", "[tiers]") {
  const auto policy = Make("lru");
  Fill(*policy, 2);
  policy->Admit(SlotIndex{2}, KeyIndex{2}, Admission::kCold);
  policy->Admit(SlotIndex{3}, KeyIndex{3}, Admission::kCold);
  policy->Touch(SlotIndex{2});
  CHECK(Evict(*policy) == 3);
  CHECK(Evict(*policy) == 0);
  CHECK(Evict(*policy) == 1);
  CHECK(Evict(*policy) == 2);
}

TEST_CASE("lfu: with a window of 1 it is lru", "[tiers]") {
  const auto policy = Make("lfu:1:0");
  Fill(*policy, 4);
  for (int i = 0; i < 9; ++i) policy->Observe(KeyIndex{0}, 1, 1);
  CHECK(Evict(*policy) == 0);
}

TEST_CASE("lfu: within the window the rarest goes, of equals the least recent", "[tiers]") {
  const auto policy = Make("lfu:3:0");
  Fill(*policy, 4);
  policy->Observe(KeyIndex{0}, 1, 1);
  policy->Observe(KeyIndex{3}, 1, 1);
  CHECK(Evict(*policy) == 1);       // 0 is used twice, 1 and 2 once, 3 is outside the window
  CHECK(Evict(*policy, {2}) == 0);  // 0 and 3 are equals
}

TEST_CASE("lfu: slots that may not go do not use up the window", "[tiers]") {
  const auto policy = Make("lfu:2:0");
  Fill(*policy, 4);
  policy->Observe(KeyIndex{2}, 1, 1);
  CHECK(Evict(*policy, {0, 1}) == 3);
}

TEST_CASE("lfu: a frequency halves every half life", "[tiers]") {
  const auto policy = Make("lfu:2:10");
  Fill(*policy, 2);
  policy->Observe(KeyIndex{0}, 0, 1);
  policy->Observe(KeyIndex{0}, 0, 1);   // 3 at step 0
  policy->Observe(KeyIndex{1}, 10, 1);  // 0.5 + 1 = 1.5 at step 10, as is 0's
  CHECK(Evict(*policy) == 0);           // equals: the least recent
  policy->Admit(SlotIndex{0}, KeyIndex{0}, Admission::kHot);
  policy->Observe(KeyIndex{0}, 10, 1);  // 2.5
  policy->Observe(KeyIndex{1}, 20, 1);  // 1.75, and 0 has 1.25
  policy->Touch(SlotIndex{1});
  CHECK(Evict(*policy) == 0);
}

TEST_CASE("lfu: a frequency outlives the eviction of its key", "[tiers]") {
  const auto policy = Make("lfu:4:0");
  Fill(*policy, 2);
  policy->Observe(KeyIndex{0}, 1, 1);
  policy->Remove(SlotIndex{0});
  policy->Admit(SlotIndex{2}, KeyIndex{0}, Admission::kCold);  // colder than 1, and more frequent
  CHECK(Evict(*policy) == 1);
}

TEST_CASE("static: hot keys stay while anything else can go", "[tiers]") {
  const auto policy = Make("static", {KeyIndex{0}, KeyIndex{2}});
  Fill(*policy, 4);
  policy->Touch(SlotIndex{1});
  CHECK(Evict(*policy) == 3);
  CHECK(Evict(*policy) == 1);
  CHECK(Evict(*policy) == 0);
  CHECK(Evict(*policy) == 2);
}

TEST_CASE("static: without a hot list those that come first stay", "[tiers]") {
  const auto policy = Make("static");
  Fill(*policy, 4);  // four slots: four members
  CHECK(Evict(*policy) == 0);
  policy->Admit(SlotIndex{0}, KeyIndex{6}, Admission::kHot);
  CHECK(Evict(*policy) == 0);  // no member, though the most recent
  policy->Admit(SlotIndex{0}, KeyIndex{0}, Admission::kHot);
  CHECK(Evict(*policy) == 1);  // key 0 is still a member
}

TEST_CASE("static: what comes cold takes no place", "[tiers]") {
  const auto policy = Make("static");
  policy->Admit(SlotIndex{0}, KeyIndex{0}, Admission::kCold);
  policy->Admit(SlotIndex{1}, KeyIndex{1}, Admission::kHot);
  policy->Touch(SlotIndex{0});
  CHECK(Evict(*policy) == 0);
}

TEST_CASE("field_09: a large batch does not push out the decode hot set", "[tiers]") {
  for (const char* name : {"lru", "lfu:8:100", "heat", "heat:10", "clock", "static"}) {
    CAPTURE(name);
    LedgerScript script({.slot_count = 12, .policy = name});
    for (int step = 0; step < 3; ++step) {
      for (uint32_t key = 0; key < 8; ++key) script.Use(key);
    }
    // The clock gives every slot one round before the first of them goes.
    for (uint32_t key = 20; key < 60; ++key) script.Use(key, Admission::kCold);
    for (uint32_t key = 0; key < 8; ++key) {
      CAPTURE(key);
      CHECK((script.IsResident(key) || std::string_view(name) == "clock"));
    }
  }
}

TEST_CASE("lru: a large batch's hits do not change the order", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Use(0);
  script.Use(1);
  CHECK(script.Use(0, Admission::kCold) == Resolution::kHit);
  script.Use(2);
  CHECK_FALSE(script.IsResident(0));
}

}  // namespace
}  // namespace moetier
