#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "tests/support/ledger_script.h"
#include "tests/support/recorded_routes.h"
#include "tiers/eviction_policy.h"

namespace moetier {
namespace {

// Replay of recorded routings: the policies must count what independent programs counted.

// The study's rule: a group is loaded first, into up to 8 slots beyond the budget, and only then
// is the pool trimmed to it, sparing the group.
class LoadThenTrim final : public EvictableSlots {
 public:
  LoadThenTrim(const char* policy, uint32_t budget)
      : budget_(budget),
        policy_(EvictionPolicy::Create(
                    policy, {.slot_count = budget + kGraniteTopK, .key_count = kGraniteKeys})
                    .value()) {
    for (uint32_t i = 0; i < budget + kGraniteTopK; ++i) free_.push_back(SlotIndex{i});
  }

  void Visit(const Group& group, uint64_t step) {
    group_ = {group.begin(), group.end()};
    for (const uint32_t key : group) {
      policy_->Observe(KeyIndex{key}, step, 1);
      if (const auto found = slots_.find(key); found != slots_.end()) {
        policy_->Touch(found->second);
        continue;
      }
      ++page_ins_;
      const SlotIndex slot = free_.back();
      free_.pop_back();
      slots_.emplace(key, slot);
      keys_[slot] = key;
      policy_->Admit(slot, KeyIndex{key}, Admission::kHot);
    }
    while (slots_.size() > budget_) {
      const SlotIndex victim = policy_->Victim(*this);
      policy_->Remove(victim);
      slots_.erase(keys_.at(victim));
      free_.push_back(victim);
    }
  }

  [[nodiscard]] bool Contains(SlotIndex slot) const override {
    return !group_.contains(keys_.at(slot));
  }
  [[nodiscard]] uint32_t page_ins() const { return page_ins_; }

 private:
  uint32_t budget_;
  std::unique_ptr<EvictionPolicy> policy_;
  std::vector<SlotIndex> free_;
  std::map<uint32_t, SlotIndex> slots_;
  std::map<SlotIndex, uint32_t> keys_;
  std::set<uint32_t> group_;
  uint32_t page_ins_ = 0;
};

struct Published {
  const char* prompt;
  uint32_t slots;
  uint32_t lru;
  uint32_t lfu;
  uint32_t static_pin;
};

constexpr Published kPublished[] = {
    {"english_prose", 77, 12288, 10184, 9435},
    {"english_prose", 192, 6590, 7595, 6648},
    {"english_prose", 384, 4459, 3951, 3051},
    {"english_prose", 576, 1700, 1534, 766},
    {"code", 192, 7949, 6954, 5546},
    {"code", 576, 779, 842, 214},
    {"code", 691, 684, 684, 0},
    {"math", 77, 12288, 10100, 9289},
    {"math", 384, 4800, 3671, 2728},
    {"math", 691, 759, 754, 35},
};

uint32_t PageIns(const char* policy, const Published& cell) {
  LoadThenTrim pool(policy, cell.slots);
  uint64_t visit = 0;
  for (const Group& group : GraniteRoutes().at(cell.prompt)) pool.Visit(group, visit++ / 24);
  return pool.page_ins();
}

TEST_CASE("lru and lfu page in what the published study of a real trace counts", "[tiers]") {
  REQUIRE(GraniteRoutes().size() == 3);
  for (const Published& cell : kPublished) {
    CAPTURE(cell.prompt, cell.slots);
    REQUIRE(GraniteRoutes().at(cell.prompt).size() == 64 * 24);
    CHECK(PageIns("lru", cell) == cell.lru);
    CHECK(PageIns("lfu:100000:0", cell) == cell.lfu);
  }
}

// The most used keys of a prompt, ties to the lower number.
std::vector<ExpertKey> MostUsed(const std::vector<Group>& groups, uint32_t count) {
  std::vector<uint32_t> uses(kGraniteKeys);
  for (const Group& group : groups) {
    for (const uint32_t key : group) ++uses[key];
  }
  std::vector<uint32_t> order(kGraniteKeys);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return uses[a] > uses[b]; });
  std::vector<ExpertKey> keys;
  for (uint32_t i = 0; i < count; ++i) keys.push_back(TestKey(order[i]));
  return keys;
}

TEST_CASE("static reads each hot key once, and streams no more than the published study",
          "[tiers]") {
  for (const Published& cell : kPublished) {
    CAPTURE(cell.prompt, cell.slots);
    const std::vector<Group>& groups = GraniteRoutes().at(cell.prompt);
    const std::vector<ExpertKey> pinned = MostUsed(groups, cell.slots);
    const std::set<ExpertKey> members(pinned.begin(), pinned.end());
    // The study streams what is not pinned past the pool: 8 slots more. Ours may hit there.
    LedgerScript script({.slot_count = cell.slots + kGraniteTopK,
                         .policy = "static",
                         .key_count = kGraniteKeys,
                         .hot_keys = pinned});
    std::multiset<uint32_t> member_reads;
    uint32_t streamed = 0;
    uint32_t uses_of_others = 0;
    for (const Group& group : groups) {
      const WaveId wave = script.Reserve(group);
      for (uint32_t i = 0; i < group.size(); ++i) {
        const bool is_member = members.contains(TestKey(group[i]));
        if (!is_member) ++uses_of_others;
        if (script.Ready(wave, i)) continue;
        if (is_member) member_reads.insert(group[i]);
        if (!is_member) ++streamed;
        script.Land(script.ReadOf(group[i]));
      }
      script.Release(wave);
    }
    CHECK(uses_of_others == cell.static_pin);
    CHECK(streamed <= cell.static_pin);
    CHECK(member_reads.size() == std::set(member_reads.begin(), member_reads.end()).size());
  }
}

TEST_CASE("lru hits the share of a per-layer cache that the demo model's README prints",
          "[tiers]") {
  struct Row {
    uint32_t slots;
    double rates[6];
  };
  constexpr Row kRows[] = {{4, {0.088, 0.111, 0.161, 0.169, 0.232, 0.213}},
                           {8, {0.224, 0.261, 0.327, 0.356, 0.417, 0.417}},
                           {12, {0.359, 0.402, 0.468, 0.505, 0.547, 0.566}},
                           {16, {0.490, 0.542, 0.590, 0.659, 0.678, 0.705}},
                           {24, {0.762, 0.823, 0.835, 0.889, 0.890, 0.897}}};
  for (const Row& row : kRows) {
    for (size_t layer = 0; layer < 6; ++layer) {
      LedgerScript script({.slot_count = row.slots, .key_count = 32});
      for (size_t visit = layer; visit < DemoRoute().size(); visit += kDemoLayers) {
        for (const uint32_t key : DemoRoute()[visit]) script.Use(key % 32);
      }
      const LedgerCounts counts = script.counts();
      REQUIRE(counts.hits + counts.misses == 4096);
      CAPTURE(row.slots, layer);
      CHECK(std::round(static_cast<double>(counts.hits) / 4.096) == row.rates[layer] * 1000);
    }
  }
}

}  // namespace
}  // namespace moetier
