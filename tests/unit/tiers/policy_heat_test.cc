#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "tests/support/ledger_script.h"
#include "tests/support/random.h"
#include "tiers/eviction_policy.h"

namespace moetier {
namespace {

class Unless final : public EvictableSlots {
 public:
  explicit Unless(std::vector<uint32_t> kept = {}) : kept_(std::move(kept)) {}
  [[nodiscard]] bool Contains(SlotIndex slot) const override {
    return std::find(kept_.begin(), kept_.end(), Raw(slot)) == kept_.end();
  }

 private:
  std::vector<uint32_t> kept_;
};

std::unique_ptr<EvictionPolicy> Make(std::string_view name, const std::vector<double>& prior = {}) {
  return EvictionPolicy::Create(name, {.slot_count = 4, .key_count = 8}, {.heat = prior}).value();
}

// Key i goes to slot i and has been used `uses[i]` times.
void Fill(EvictionPolicy& policy, const std::vector<int>& uses) {
  for (uint32_t i = 0; i < uses.size(); ++i) {
    for (int use = 0; use < uses[i]; ++use) policy.Observe(KeyIndex{i}, 0, 1);
    policy.Admit(SlotIndex{i}, KeyIndex{i}, Admission::kHot);
  }
}

uint32_t Evict(EvictionPolicy& policy, std::vector<uint32_t> kept = {}) {
  const SlotIndex victim = policy.Victim(Unless(std::move(kept)));
  policy.Remove(victim);
  return Raw(victim);
}

TEST_CASE("heat: the least used goes first, of equals the least recently used", "[tiers]") {
  const auto policy = Make("heat");
  Fill(*policy, {3, 1, 2, 1});
  policy->Touch(SlotIndex{1});
  CHECK(Evict(*policy) == 3);
  CHECK(Evict(*policy) == 1);
  CHECK(Evict(*policy) == 2);
  CHECK(Evict(*policy) == 0);
}

TEST_CASE("heat: slots that may not go are passed over in order", "[tiers]") {
  const auto policy = Make("heat");
  Fill(*policy, {4, 3, 2, 1});
  CHECK(Evict(*policy, {3, 2}) == 1);
  CHECK(Evict(*policy, {3}) == 2);
}

TEST_CASE("heat: what is used once passes through and what is hot stays", "[tiers]") {
  LedgerScript script({.slot_count = 4, .policy = "heat"});
  for (int i = 0; i < 2; ++i) {
    for (uint32_t key = 0; key < 3; ++key) script.Use(key);
  }
  for (uint32_t key = 10; key < 40; ++key) script.Use(key);
  for (uint32_t key = 0; key < 3; ++key) CHECK(script.IsResident(key));
}

TEST_CASE("heat: it outlives the eviction of its key", "[tiers]") {
  const auto policy = Make("heat");
  Fill(*policy, {2, 1});
  policy->Remove(SlotIndex{0});
  policy->Admit(SlotIndex{2}, KeyIndex{0}, Admission::kHot);
  CHECK(Evict(*policy) == 1);
}

TEST_CASE("heat: half a life ago counts half", "[tiers]") {
  const auto policy = Make("heat:10");
  Fill(*policy, {3, 1});
  policy->Observe(KeyIndex{1}, 10, 1);  // 1.5 each: the least recently admitted
  CHECK(Evict(*policy) == 0);
  policy->Admit(SlotIndex{0}, KeyIndex{0}, Admission::kHot);
  policy->Observe(KeyIndex{1}, 12, 0.25);
  CHECK(Evict(*policy) == 0);
}

TEST_CASE("heat: a prior is as good as uses", "[tiers]") {
  const auto policy = Make("heat", {2.5, 0, 0.5});
  Fill(*policy, {0, 2, 1});
  CHECK(Evict(*policy) == 2);
  CHECK(Evict(*policy) == 1);
}

TEST_CASE("heat: what is admitted cold goes before all others, hot or not, until it is used",
          "[tiers]") {
  const auto policy = Make("heat", {0, 0, 9, 9});
  Fill(*policy, {1, 1});
  policy->Admit(SlotIndex{2}, KeyIndex{2}, Admission::kCold);
  policy->Admit(SlotIndex{3}, KeyIndex{3}, Admission::kCold);
  policy->Touch(SlotIndex{3});
  CHECK(Evict(*policy) == 2);
  CHECK(Evict(*policy) == 0);
  CHECK(Evict(*policy) == 1);
  CHECK(Evict(*policy) == 3);
}

TEST_CASE("heat: a request of many rows adds what it is said to add", "[tiers]") {
  LedgerScript script({.slot_count = 3, .policy = "heat:0"});
  script.Use(0);
  script.Use(1);
  script.Use(1);
  for (int i = 0; i < 4; ++i) {
    script.Release(script.Reserve({0}, {.heat = {0.125F}}));
  }
  script.Use(2);
  script.Use(2);
  script.Use(3);  // 0 has 1.5 uses, 1 and 2 have 2
  CHECK_FALSE(script.IsResident(0));
}

TEST_CASE("heat: held waves add none", "[tiers]") {
  LedgerScript script({.slot_count = 2, .policy = "heat:0"});
  script.Use(0);
  for (int i = 0; i < 5; ++i) script.Release(script.Reserve({0}, {.tenure = Tenure::kHeld}));
  script.Use(1);
  script.Use(1);
  script.Use(2);
  CHECK_FALSE(script.IsResident(0));
}

TEST_CASE("heat: a prior needs one heat a key", "[tiers]") {
  const auto ledger = ResidencyLedger::Create(
      {.slot_count = 2, .policy = "heat", .keys = TestKeys(4), .prior = {1, 2, 3}});
  REQUIRE_FALSE(ledger.has_value());
  CHECK(ledger.error().message == "a prior of 3 heats for 4 keys");
}

// The same rule without a heap: every slot is looked at.
struct PlainSlot {
  std::optional<uint32_t> key;
  bool cold = false;
  uint64_t used_at = 0;  // for cold ones: falling, since the last that came goes first
};

TEST_CASE("heat: it chooses as one does who looks at every slot", "[tiers]") {
  constexpr uint32_t kSlots = 24;
  constexpr uint32_t kKeys = 60;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto policy =
        EvictionPolicy::Create("heat:1", {.slot_count = kSlots, .key_count = kKeys}).value();
    std::vector<PlainSlot> slots(kSlots);
    std::vector<double> log_heat(kKeys, -INFINITY);
    uint64_t step = 0;
    uint64_t uses = 0;
    for (int event = 0; event < 4000; ++event) {
      const auto key = static_cast<uint32_t>(random.Below(kKeys));
      // Sums of powers of 2 a few halvings apart: exact, and equals stay equal.
      step += random.Below(2);
      policy->Observe(KeyIndex{key}, step, 1);
      const auto now = static_cast<double>(step);
      log_heat[key] = std::log2(std::exp2(log_heat[key] - now) + 1) + now;
      const auto holder = std::find_if(slots.begin(), slots.end(),
                                       [&](const PlainSlot& slot) { return slot.key == key; });
      if (holder != slots.end()) {
        policy->Touch(SlotIndex{static_cast<uint32_t>(holder - slots.begin())});
        *holder = {.key = key, .cold = false, .used_at = ++uses};
        continue;
      }
      auto target =
          std::find_if(slots.begin(), slots.end(), [](const PlainSlot& slot) { return !slot.key; });
      if (target == slots.end()) {
        std::vector<uint32_t> kept;
        for (int i = 0; i < 5; ++i) kept.push_back(static_cast<uint32_t>(random.Below(kSlots)));
        const uint32_t victim = Evict(*policy, kept);
        const Unless evictable(kept);
        const PlainSlot& chosen = slots[victim];
        REQUIRE(evictable.Contains(SlotIndex{victim}));
        for (uint32_t i = 0; i < kSlots; ++i) {
          const PlainSlot& other = slots[i];
          if (i == victim || !evictable.Contains(SlotIndex{i})) continue;
          REQUIRE((chosen.cold || !other.cold));
          if (chosen.cold && other.cold) REQUIRE(chosen.used_at > other.used_at);
          if (chosen.cold || other.cold) continue;
          const double colder = log_heat[*other.key] - log_heat[*chosen.key];
          REQUIRE(colder > -1e-9);
        }
        target = slots.begin() + victim;
      }
      const bool cold = random.Percent(20);
      *target = {.key = key, .cold = cold, .used_at = ++uses};
      policy->Admit(SlotIndex{static_cast<uint32_t>(target - slots.begin())}, KeyIndex{key},
                    cold ? Admission::kCold : Admission::kHot);
    }
  }
}

}  // namespace
}  // namespace moetier
