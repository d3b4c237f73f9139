#include <catch2/catch.hpp>

#include "tests/support/ledger_script.h"

namespace moetier {

TEST_CASE("ResidencyLedger: a lease counts as held, once a slot, and a copy does not", "[tiers]") {
  LedgerScript script({.slot_count = 4});
  script.Use(0);
  script.Hold(0, Tenure::kHeld);
  script.Hold(0, Tenure::kHeld);
  script.Hold(0);
  CHECK(script.counts().held == 1);
  CHECK(script.counts().reserved == 1);
  script.Unhold(0, Tenure::kHeld);
  script.Unhold(0, Tenure::kHeld);
  CHECK(script.counts().held == 0);
  CHECK(script.counts().reserved == 1);
  script.Unhold(0);
  CHECK(script.counts().reserved == 0);
}

TEST_CASE("ResidencyLedger: a shrink leaves a waiting wave its slots beside the leases",
          "[tiers]") {
  LedgerScript script({.slot_count = 6});
  const WaveId all = script.Reserve({0, 1, 2, 3, 4, 5});
  for (uint32_t key = 0; key < 6; ++key) script.Land(script.ReadOf(key));
  script.Hold(0, Tenure::kHeld);
  script.Hold(1, Tenure::kHeld);
  const WaveId waiting = script.Reserve({10, 11, 12, 13});
  CHECK(script.ledger().LargestWaiting() == 4);
  script.Limit(3);
  script.Release(all);
  for (const uint32_t key : {10, 11, 12, 13}) script.Land(script.ReadOf(key));
  CHECK(script.Ready(waiting, 3));
  CHECK(script.IsResident(0));
  CHECK(script.IsResident(1));
  script.Release(waiting);
  CHECK(script.counts().retired == 3);
}

TEST_CASE("ResidencyLedger: held waves that wait are not the largest that waits", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  const WaveId all = script.Reserve({0, 1});
  CHECK(script.ledger().LargestWaiting() == 0);
  script.Reserve({2, 3}, {.tenure = Tenure::kHeld});
  CHECK(script.ledger().LargestWaiting() == 0);
  script.Reserve({4});
  CHECK(script.ledger().LargestWaiting() == 1);
  script.Release(all);
}

TEST_CASE("ResidencyLedger: an eviction is told with its generation, before the slot is read into",
          "[tiers]") {
  LedgerScript script({.slot_count = 1});
  script.Use(0);
  const uint32_t generation = script.ReadOf(0).generation;
  script.Reserve({1});
  REQUIRE(script.evicted().size() == 1);
  CHECK(script.evicted()[0].key == TestKey(0));
  CHECK(script.evicted()[0].slot == SlotIndex{0});
  CHECK(script.evicted()[0].generation == generation);
  REQUIRE(script.last_commands().size() == 2);
  CHECK(std::holds_alternative<KeyEvicted>(script.last_commands()[0]));
  CHECK(std::holds_alternative<StartRead>(script.last_commands()[1]));
}

TEST_CASE("ResidencyLedger: whatever takes a resident key's slot is told as its eviction",
          "[tiers]") {
  LedgerScript script({.slot_count = 3});
  for (const uint32_t key : {0, 1, 2}) script.Use(key);
  script.Drop(0);
  REQUIRE(script.evicted().size() == 1);
  script.Hold(1, Tenure::kHeld);
  script.Drop(1);
  CHECK(script.evicted().size() == 1);  // the lease goes first
  script.Unhold(1, Tenure::kHeld);
  REQUIRE(script.evicted().size() == 2);
  CHECK(script.evicted()[1].key == TestKey(1));
  script.Use(3);
  script.Use(4);
  script.Limit(1);  // 2 retires, and what came before the last
  CHECK(script.evicted().size() == 4);
  CHECK(script.retired().size() == 2);
}

TEST_CASE("ResidencyLedger: a read that never landed is no eviction", "[tiers]") {
  LedgerScript script({.slot_count = 1});
  const WaveId wave = script.Reserve({0});
  const Ticket read = script.ReadOf(0);
  script.Release(wave);
  script.End(read, ReadEnded::Why::kCancelled);
  script.Use(1);
  CHECK(script.evicted().empty());
}

TEST_CASE("ResidencyLedger: a touch counts and orders as a call would, and holds nothing",
          "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Use(0);
  script.Use(1);
  const LedgerCounts before = script.counts();
  script.Touch({0, 2});
  const LedgerCounts after = script.counts();
  CHECK(after.hits == before.hits + 1);
  CHECK(after.misses == before.misses + 1);
  CHECK(after.reserved == 0);
  CHECK(after.loading == 0);
  script.Use(3);
  CHECK(script.IsResident(0));  // used since
  CHECK_FALSE(script.IsResident(1));
  script.Touch({0}, Admission::kCold);  // a large request's
  script.Use(4);
  CHECK_FALSE(script.IsResident(0));
}

TEST_CASE("ResidencyLedger: a touch sees what loads and what failed", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Reserve({0});
  script.Reserve({1});
  script.Fail(script.ReadOf(1));
  const LedgerCounts before = script.counts();
  script.Touch({0, 1});
  CHECK(script.counts().in_flight == before.in_flight + 1);
  CHECK(script.counts().failed == before.failed + 1);
  CHECK(script.counts().loading == 1);
}

}  // namespace moetier
