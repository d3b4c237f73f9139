#include <catch2/catch.hpp>
#include <vector>

#include "tests/support/ledger_script.h"

namespace moetier {
namespace {

// Keys 0, 1, ... used in that order, so that 0 is the coldest.
LedgerScript FullOf(uint32_t keys, uint32_t slots) {
  LedgerScript script({.slot_count = slots});
  for (uint32_t key = 0; key < keys; ++key) script.Use(key);
  return script;
}

}  // namespace

TEST_CASE("ResidencyLedger: a lower limit retires free slots first, then the coldest", "[tiers]") {
  LedgerScript script = FullOf(4, 6);
  script.Limit(5);
  CHECK(script.counts().retired == 1);
  CHECK(script.counts().evictions == 0);
  script.Limit(2);
  CHECK(script.counts().retired == 4);
  CHECK(script.counts().evictions == 2);
  CHECK_FALSE(script.IsResident(0));
  CHECK_FALSE(script.IsResident(1));
  CHECK(script.IsResident(2));
  CHECK(script.IsResident(3));
  CHECK(script.ledger().slot_count() == 2);
}

TEST_CASE("ResidencyLedger: where memory goes in large pieces the highest slots retire",
          "[tiers]") {
  LedgerScript script({.slot_count = 4, .place_count = 6, .retiring = Retiring::kHighest});
  script.Use(0);  // in slot 0: the coldest
  script.Use(1);
  const WaveId wave = script.Reserve({2});
  script.Land(script.ReadOf(2));
  REQUIRE(script.ReadOf(2).slot == SlotIndex{2});
  script.Limit(2);
  CHECK(script.retired() == std::vector<SlotIndex>{SlotIndex{3}, SlotIndex{1}});
  CHECK(script.IsResident(0));
  CHECK_FALSE(script.IsResident(1));
  script.Restore(SlotIndex{3}, 1);
  script.Use(3);
  CHECK(script.ReadOf(3).slot == SlotIndex{3});
  script.Release(wave);
}

TEST_CASE(
    "ResidencyLedger: a wave of what is here is granted while slots beyond the limit are held",
    "[tiers]") {
  LedgerScript script = FullOf(3, 3);
  const WaveId first = script.Reserve({0, 1, 2});
  script.Limit(1);
  CHECK(script.retired().empty());
  const WaveId second = script.Reserve({0, 1, 2});
  for (uint32_t i = 0; i < 3; ++i) CHECK(script.Ready(second, i).has_value());
  script.Release(first);
  CHECK(script.retired().empty());
  script.Release(second);
  CHECK(script.retired().size() == 2);
}

TEST_CASE("ResidencyLedger: a reserved slot retires when it is released, not before", "[tiers]") {
  LedgerScript script = FullOf(2, 2);
  const WaveId first = script.Reserve({0});
  const WaveId second = script.Reserve({1});
  script.Limit(1);
  CHECK(script.retired().empty());
  script.Release(first);
  CHECK(script.retired().size() == 1);
  CHECK(script.IsResident(1));
  script.Release(second);
  CHECK(script.retired().size() == 1);
  CHECK(script.IsResident(1));
}

TEST_CASE("ResidencyLedger: a slot that is read into retires after its read has ended", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  const WaveId first = script.Reserve({0});
  const WaveId second = script.Reserve({1});
  script.Limit(1);
  script.Release(first);  // cancelled: the drive may still be writing
  CHECK(script.retired().empty());
  script.End(script.ReadOf(0), ReadEnded::Why::kCancelled);
  CHECK(script.retired() == std::vector<SlotIndex>{script.ReadOf(0).slot});
  script.Land(script.ReadOf(1));
  CHECK(script.Ready(second, 0).has_value());
}

TEST_CASE("ResidencyLedger: a retired slot is not used until it is restored", "[tiers]") {
  LedgerScript script = FullOf(3, 3);
  script.Limit(1);
  const std::vector<SlotIndex> retired = script.ledger().RetiredSlots();
  REQUIRE(retired.size() == 2);
  for (uint32_t key = 10; key < 20; ++key) {
    script.Use(key);
    for (const SlotIndex slot : retired) CHECK(script.ReadOf(key).slot != slot);
  }
  const WaveId small = script.Reserve({30});
  const WaveId waits = script.Reserve({31});
  CHECK(script.counts().waiting_waves == 1);
  script.Restore(retired.front(), 1);
  CHECK(script.counts().waiting_waves == 0);
  CHECK(script.ReadOf(31).slot == retired.front());
  CHECK(script.ledger().slot_count() == 2);
  script.Release(small);
  script.Release(waits);
}

TEST_CASE("ResidencyLedger: a wave that waits under a lower limit than it was asked for is granted",
          "[tiers]") {
  LedgerScript script({.slot_count = 4});
  const WaveId first = script.Reserve({0, 1, 2, 3});
  const WaveId larger_than_the_limit = script.Reserve({4, 5, 6});
  script.Limit(1);
  script.Release(first);
  for (const uint32_t key : {0, 1, 2, 3}) {
    script.End(script.ReadOf(key), ReadEnded::Why::kCancelled);
  }
  for (const uint32_t key : {4, 5, 6}) script.Land(script.ReadOf(key));
  CHECK(script.Ready(larger_than_the_limit, 2).has_value());
  CHECK(script.counts().retired == 1);
  script.Release(larger_than_the_limit);
  CHECK(script.counts().retired == 3);
}

TEST_CASE("ResidencyLedger: held slots stay beside the waves that wait for room", "[tiers]") {
  LedgerScript script({.slot_count = 5});
  const WaveId calls = script.Reserve({0, 1, 2, 3, 4});
  const WaveId held = script.Reserve({10, 11}, {.tenure = Tenure::kHeld});
  const WaveId after = script.Reserve({20, 21});
  script.Limit(3);
  for (const uint32_t key : {0, 1, 2, 3, 4}) script.Land(script.ReadOf(key));
  script.Release(calls);
  script.Land(script.ReadOf(10));
  script.Land(script.ReadOf(11));
  CHECK(script.Ready(held, 1).has_value());
  script.Land(script.ReadOf(20));
  script.Land(script.ReadOf(21));
  CHECK(script.Ready(after, 1).has_value());
  script.Release(after);
  CHECK(script.counts().retired == 2);
  CHECK(script.Ready(held, 0).has_value());
}

TEST_CASE("ResidencyLedger: places beyond the slots begin retired", "[tiers]") {
  LedgerScript script({.slot_count = 1, .place_count = 3});
  CHECK(script.ledger().slot_count() == 1);
  CHECK(script.ledger().place_count() == 3);
  CHECK(script.counts().free == 1);
  CHECK(script.ledger().RetiredSlots() == std::vector<SlotIndex>{SlotIndex{1}, SlotIndex{2}});
  script.Restore(SlotIndex{1}, 2);
  CHECK(script.ledger().slot_count() == 3);
  CHECK(script.Reserve({0, 1, 2}) == WaveId{1});
  CHECK(script.reads_started() == 3);
}

}  // namespace moetier
