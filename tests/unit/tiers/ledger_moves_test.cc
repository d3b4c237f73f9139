#include <catch2/catch.hpp>

#include "tests/support/ledger_script.h"

namespace moetier {

TEST_CASE("ResidencyLedger: a key that is held is no victim until it is unheld", "[tiers]") {
  LedgerScript script({.slot_count = 1});
  script.Use(0);
  script.Hold(0);
  script.Hold(0);
  const WaveId other = script.Reserve({1});
  CHECK(script.reads_started() == 1);
  script.Unhold(0);
  CHECK(script.reads_started() == 1);
  script.Unhold(0);
  CHECK(script.reads_started() == 2);
  script.Land(script.ReadOf(1));
  CHECK(script.Ready(other, 0));
}

TEST_CASE("ResidencyLedger: holding a key is no use of it", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Use(0);
  script.Use(1);
  const LedgerCounts before = script.counts();
  script.Hold(0);
  CHECK(script.counts().reserved == 1);
  script.Unhold(0);
  CHECK(script.counts().hits == before.hits);
  CHECK(script.counts().reserved == 0);
  script.Use(2);
  CHECK_FALSE(script.IsResident(0));  // still the least recently used
}

TEST_CASE("ResidencyLedger: a key that is dropped frees its slot for the wave that waits",
          "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Use(0);
  script.Use(1);
  script.Hold(0);
  script.Hold(1);
  script.Reserve({2});
  CHECK(script.reads_started() == 2);
  script.Drop(0);  // somebody still copies it
  CHECK(script.IsResident(0));
  script.Unhold(0);
  CHECK_FALSE(script.IsResident(0));
  CHECK(script.reads_started() == 3);
  CHECK(script.counts().dropped == 1);
  CHECK(script.counts().evictions == 0);
}

TEST_CASE("ResidencyLedger: a drop that waits is taken back, and the key stays", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Use(0);
  script.Hold(0);
  script.Drop(0);
  CHECK(script.ledger().View(*script.ledger().SlotOf(TestKey(0))).dropped);
  script.Keep(0);
  script.Unhold(0);
  CHECK(script.IsResident(0));
  CHECK(script.counts().dropped == 0);
  script.Keep(1);  // not here
  script.Drop(0);
  CHECK_FALSE(script.IsResident(0));
}

TEST_CASE("ResidencyLedger: a dropped key serves the wave that has it and goes with it",
          "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Use(0);
  const WaveId wave = script.Reserve({0});
  script.Drop(0);
  CHECK(script.IsResident(0));
  const WaveId joined = script.Reserve({0});
  CHECK(script.Ready(joined, 0)->resolution == Resolution::kHit);
  script.Release(wave);
  CHECK(script.IsResident(0));
  script.Release(joined);
  CHECK_FALSE(script.IsResident(0));
  CHECK(script.counts().free == 2);
  script.Use(0);  // its slot's next key does not inherit the drop
  CHECK(script.IsResident(0));
}

TEST_CASE("ResidencyLedger: a key that is not resident is not dropped", "[tiers]") {
  LedgerScript script({.slot_count = 1});
  script.Drop(0);
  const WaveId wave = script.Reserve({0});
  script.Drop(0);  // its read is under way
  script.Land(script.ReadOf(0));
  script.Release(wave);
  CHECK(script.IsResident(0));
  CHECK(script.counts().dropped == 0);
}

}  // namespace moetier
