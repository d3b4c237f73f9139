#include <catch2/catch.hpp>

#include "tests/support/ledger_script.h"

namespace moetier {
namespace {

TEST_CASE("ResidencyLedger: a miss is read, and ready only when its bytes have landed", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  const WaveId wave = script.Reserve({5});
  CHECK(script.reads_started() == 1);
  CHECK_FALSE(script.Ready(wave, 0));
  CHECK(script.ledger().StateOf(TestKey(5)) == SlotState::kLoading);
  script.Land(script.ReadOf(5));
  REQUIRE(script.Ready(wave, 0));
  CHECK(script.Ready(wave, 0)->resolution == Resolution::kMiss);
  CHECK(script.Ready(wave, 0)->slot == script.ReadOf(5).slot);
  CHECK(script.counts().misses == 1);
}

TEST_CASE("ResidencyLedger: a resident key is ready in the step that reserves it", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Use(5);
  const WaveId wave = script.Reserve({5});
  REQUIRE(script.Ready(wave, 0));
  CHECK(script.Ready(wave, 0)->resolution == Resolution::kHit);
  CHECK(script.reads_started() == 1);
}

TEST_CASE("ResidencyLedger: two waves that miss one key share its read", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  const WaveId first = script.Reserve({5});
  const WaveId second = script.Reserve({5});
  CHECK(script.reads_started() == 1);
  script.Land(script.ReadOf(5));
  CHECK(script.Ready(first, 0)->resolution == Resolution::kMiss);
  CHECK(script.Ready(second, 0)->resolution == Resolution::kInFlight);
  CHECK(script.counts().in_flight == 1);
}

TEST_CASE("ResidencyLedger: a wave that cannot have all its slots holds none", "[tiers]") {
  LedgerScript script({.slot_count = 3});
  const WaveId first = script.Reserve({0, 1});
  const WaveId second = script.Reserve({2, 3});
  CHECK(script.reads_started() == 2);  // not 3, though one slot is free
  CHECK(script.counts().free == 1);
  CHECK(script.counts().waiting_waves == 1);
  script.Land(script.ReadOf(0));
  script.Land(script.ReadOf(1));
  CHECK(script.reads_started() == 2);  // landing frees nothing: the first wave still holds them
  script.Release(first);
  CHECK(script.reads_started() == 4);
  CHECK(script.counts().evictions == 1);
  script.Land(script.ReadOf(2));
  CHECK(script.Ready(second, 0));
}

TEST_CASE("ResidencyLedger: a small wave does not overtake a large one that waits", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  const WaveId holder = script.Reserve({0});
  script.Land(script.ReadOf(0));
  const WaveId large = script.Reserve({1, 2});
  const WaveId resident = script.Reserve({0});  // would be a hit at once
  CHECK_FALSE(script.Ready(resident, 0));
  CHECK(script.counts().waiting_waves == 2);
  script.Release(holder);
  CHECK(script.reads_started() == 3);  // the large one evicts key 0
  CHECK_FALSE(script.Ready(resident, 0));
  script.Land(script.ReadOf(1));
  script.Land(script.ReadOf(2));
  CHECK(script.Ready(large, 1));
  script.Release(large);
  CHECK(script.counts().waiting_waves == 0);
}

TEST_CASE("ResidencyLedger: the release of a waiting wave lets the one behind it go", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  const WaveId holder = script.Reserve({0});
  script.Land(script.ReadOf(0));
  const WaveId large = script.Reserve({1, 2});
  const WaveId small = script.Reserve({0, 3});
  const WaveId last = script.Reserve({3});
  script.Release(large);
  CHECK(script.Ready(small, 0));
  CHECK(script.counts().waiting_waves == 0);
  script.Land(script.ReadOf(3));
  CHECK(script.Ready(last, 0));
  script.Release(holder);
  CHECK(script.counts().reserved == 2);
}

TEST_CASE("ResidencyLedger: the last of the queue can leave and another can come", "[tiers]") {
  LedgerScript script({.slot_count = 1});
  const WaveId holder = script.Reserve({0});
  const WaveId second = script.Reserve({1});
  const WaveId third = script.Reserve({2});
  script.Release(third);
  const WaveId fourth = script.Reserve({3});
  script.Land(script.ReadOf(0));
  script.Release(holder);
  script.Land(script.ReadOf(1));
  script.Release(second);
  script.Land(script.ReadOf(3));
  CHECK(script.Ready(fourth, 0));
}

TEST_CASE("ResidencyLedger: a reserved key is never the victim", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Use(0);
  script.Use(1);
  const WaveId holder = script.Reserve({0}, {.admission = Admission::kCold});  // still the coldest
  script.Use(2);
  CHECK(script.IsResident(0));
  CHECK_FALSE(script.IsResident(1));
  script.Release(holder);
  script.Use(3);
  CHECK_FALSE(script.IsResident(0));
}

TEST_CASE("ResidencyLedger: no victim of a wave is a key of the wave", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Use(0);
  script.Use(1);
  const WaveId wave = script.Reserve({2, 0});  // 0 is the least recently used
  CHECK(script.Ready(wave, 1));
  CHECK_FALSE(script.IsResident(1));
  CHECK(script.counts().evictions == 1);
}

TEST_CASE("ResidencyLedger: a key shared by two waves stays until both are released", "[tiers]") {
  LedgerScript script({.slot_count = 1});
  script.Use(0);
  const WaveId first = script.Reserve({0});
  const WaveId second = script.Reserve({0});
  const WaveId other = script.Reserve({1});
  script.Release(first);
  CHECK(script.IsResident(0));
  CHECK(script.reads_started() == 1);
  script.Release(second);
  CHECK_FALSE(script.IsResident(0));
  script.Land(script.ReadOf(1));
  CHECK(script.Ready(other, 0));
}

TEST_CASE("ResidencyLedger: held slots are counted apart and given back", "[tiers]") {
  LedgerScript script({.slot_count = 3});
  const WaveId pin = script.Reserve({0, 1}, {.tenure = Tenure::kHeld});
  const WaveId lease = script.Reserve({1}, {.tenure = Tenure::kHeld});
  const WaveId call = script.Reserve({1, 2});
  CHECK(script.counts().held == 2);
  CHECK(script.counts().reserved == 3);
  script.Release(pin);
  CHECK(script.counts().held == 1);
  script.Release(lease);
  CHECK(script.counts().held == 0);
  CHECK(script.counts().reserved == 2);
  script.Release(call);
  CHECK(script.counts().reserved == 0);
}

TEST_CASE("ResidencyLedger: the states of slots always sum to the slots", "[tiers]") {
  LedgerScript script({.slot_count = 4});
  script.Use(0);
  const WaveId cancelled = script.Reserve({1});
  script.Release(cancelled);
  script.Reserve({2});
  const LedgerCounts counts = script.counts();
  CHECK(counts.resident == 1);
  CHECK(counts.draining == 1);
  CHECK(counts.loading == 1);
  CHECK(counts.free == 1);
}

TEST_CASE("ResidencyLedger: pins are no requests and count as no hits or misses", "[tiers]") {
  LedgerScript script({.slot_count = 3});
  script.Use(0);
  const LedgerCounts before = script.counts();
  script.Reserve({0, 1}, {.tenure = Tenure::kHeld});
  script.Land(script.ReadOf(1));
  CHECK(script.counts().hits == before.hits);
  CHECK(script.counts().misses == before.misses);
}

}  // namespace
}  // namespace moetier
