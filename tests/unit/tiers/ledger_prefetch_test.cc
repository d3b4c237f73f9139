#include <catch2/catch.hpp>

#include "tests/support/ledger_script.h"

namespace moetier {
namespace {

using Why = ReadEnded::Why;

Urgency UrgencyOf(const CommandList& commands) {
  return std::get<StartRead>(commands.at(0)).urgency;
}

TEST_CASE("ResidencyLedger: a prefetch reads with the urgency of one and reserves nothing",
          "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Guess(0);
  REQUIRE(script.last_commands().size() == 1);
  CHECK(UrgencyOf(script.last_commands()) == Urgency::kPrefetch);
  CHECK(script.counts().reserved == 0);
  CHECK(script.counts().prefetched == 1);
  script.Land(script.ReadOf(0));
  CHECK(script.IsResident(0));
  script.Reserve({1});
  CHECK(UrgencyOf(script.last_commands()) == Urgency::kDemand);
}

TEST_CASE("ResidencyLedger: a wave that names a landed prefetch has a hit", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Guess(0);
  script.Land(script.ReadOf(0));
  const WaveId wave = script.Reserve({0});
  CHECK(script.Ready(wave, 0)->resolution == Resolution::kHit);
  CHECK(script.counts().prefetch_used == 1);
  CHECK(script.counts().prefetch_late == 0);
  script.Release(wave);
  script.Reserve({0});  // a second use of the same expert is no second use of the prefetch
  CHECK(script.counts().prefetch_used == 1);
}

TEST_CASE("ResidencyLedger: a wave that names a loading prefetch joins it and promotes it once",
          "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Guess(0);
  const Ticket read = script.ReadOf(0);
  const WaveId wave = script.Reserve({0});
  CHECK(script.WasPromoted(read));
  script.Reserve({0});
  CHECK(script.last_commands().empty());
  CHECK(script.reads_started() == 1);
  script.Land(read);
  CHECK(script.Ready(wave, 0)->resolution == Resolution::kInFlight);
  CHECK(script.counts().prefetch_used == 1);
  CHECK(script.counts().prefetch_late == 1);
}

TEST_CASE("ResidencyLedger: a prefetch of what is here, on its way or quarantined reads nothing",
          "[tiers]") {
  LedgerScript script({.slot_count = 4});
  script.Use(0);
  script.Reserve({1});
  script.Reserve({2});
  script.Fail(script.ReadOf(2));
  const size_t reads = script.reads_started();
  for (const uint32_t key : {0, 1, 2}) script.Guess(key);
  CHECK(script.reads_started() == reads);
  CHECK(script.counts().prefetched == 0);
  CHECK(script.counts().prefetch_refused == 0);
}

TEST_CASE("ResidencyLedger: a prefetch of free slots only evicts nothing", "[tiers]") {
  LedgerScript script({.slot_count = 1});
  script.Use(0);
  script.Guess(1, PrefetchRoom::kFreeSlots);
  CHECK(script.IsResident(0));
  CHECK(script.counts().preheated == 0);
}

TEST_CASE("ResidencyLedger: what a preheat reads is counted apart from prefetches", "[tiers]") {
  LedgerScript script({.slot_count = 3});
  for (const uint32_t key : {0, 1, 2}) script.Guess(key, PrefetchRoom::kFreeSlots);
  CHECK(script.counts().preheating == 3);
  script.Reserve({0});  // while it is being read
  script.Land(script.ReadOf(1));
  script.Fail(script.ReadOf(2));
  CHECK(script.counts().preheated == 3);
  CHECK(script.counts().preheat_used == 1);
  CHECK(script.counts().preheat_wasted == 1);
  CHECK(script.counts().preheating == 0);
  script.Guess(2 + 1);
  CHECK(script.counts().prefetched == 1);
  CHECK(script.counts().prefetch_used + script.counts().prefetch_late == 0);
  CHECK(script.counts().prefetch_wasted == 0);
}

TEST_CASE("ResidencyLedger: a prefetch takes no reserved slot", "[tiers]") {
  LedgerScript script({.slot_count = 1});
  const WaveId wave = script.Reserve({0});
  script.Land(script.ReadOf(0));
  script.Guess(1);
  CHECK(script.counts().prefetch_refused == 1);
  script.Release(wave);
  script.Guess(1);
  CHECK(script.counts().prefetched == 1);
}

TEST_CASE("ResidencyLedger: a prefetch does not evict what is expected itself", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Use(0);
  script.Guess(0);  // resident: expected from now on
  script.Guess(1);
  script.Land(script.ReadOf(1));
  script.Guess(2);
  CHECK(script.counts().prefetch_refused == 1);
  CHECK(script.IsResident(0));
  CHECK(script.IsResident(1));
  script.StopGuessing(0);
  script.Guess(2);
  CHECK_FALSE(script.IsResident(0));
}

TEST_CASE("ResidencyLedger: a wave evicts the expected last", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Guess(0);
  script.Land(script.ReadOf(0));
  script.Use(1);  // used later than 0 came, and still the victim
  script.Use(2);
  CHECK(script.IsResident(0));
  CHECK_FALSE(script.IsResident(1));
  const WaveId wave = script.Reserve({3, 4});  // no other is left
  CHECK_FALSE(script.IsResident(0));
  CHECK(script.counts().prefetch_wasted == 1);
  script.Release(wave);
}

TEST_CASE("ResidencyLedger: a dropped prefetch that no wave has joined is cancelled", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Guess(0);
  script.StopGuessing(0);
  CHECK(script.WasCancelled(script.ReadOf(0)));
  CHECK(script.counts().draining == 1);
  CHECK(script.counts().prefetch_wasted == 1);
  script.End(script.ReadOf(0), Why::kCancelled);
  CHECK(script.counts().free == 2);
}

TEST_CASE("ResidencyLedger: a dropped prefetch that a wave has joined goes on", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Guess(0);
  const WaveId wave = script.Reserve({0});
  script.StopGuessing(0);
  CHECK_FALSE(script.WasCancelled(script.ReadOf(0)));
  script.Land(script.ReadOf(0));
  CHECK(script.Ready(wave, 0));
}

TEST_CASE("ResidencyLedger: a dropped prefetch that a waiting wave names goes on", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Guess(0);
  const WaveId first = script.Reserve({1});
  const WaveId waiting = script.Reserve({0, 2});
  script.StopGuessing(0);
  CHECK_FALSE(script.WasCancelled(script.ReadOf(0)));
  script.Land(script.ReadOf(1));
  script.Release(first);
  script.Land(script.ReadOf(0));
  CHECK(script.Ready(waiting, 0));
}

TEST_CASE("ResidencyLedger: a wave that lacks room has prefetches cancelled, the youngest first",
          "[tiers]") {
  LedgerScript script({.slot_count = 3});
  for (const uint32_t key : {0, 1, 2}) script.Guess(key);
  const WaveId wave = script.Reserve({3, 4, 0});
  CHECK(script.WasCancelled(script.ReadOf(2)));
  CHECK(script.WasCancelled(script.ReadOf(1)));
  CHECK_FALSE(script.WasCancelled(script.ReadOf(0)));  // the wave's own
  script.End(script.ReadOf(1), Why::kCancelled);
  script.End(script.ReadOf(2), Why::kCancelled);
  CHECK(script.counts().waiting_waves == 0);
  CHECK(script.WasPromoted(script.ReadOf(0)));
  for (const uint32_t key : {0, 3, 4}) script.Land(script.ReadOf(key));
  CHECK(script.Ready(wave, 1));
}

TEST_CASE("ResidencyLedger: no more prefetches are cancelled than a wave lacks slots", "[tiers]") {
  LedgerScript script({.slot_count = 3});
  for (const uint32_t key : {0, 1}) script.Guess(key);
  script.Reserve({3, 4});
  CHECK(script.WasCancelled(script.ReadOf(1)));
  CHECK_FALSE(script.WasCancelled(script.ReadOf(0)));
}

TEST_CASE("ResidencyLedger: a prefetch is refused while a wave waits for room", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Reserve({0});
  script.Reserve({1, 2});
  CHECK(script.counts().waiting_waves == 1);
  script.Guess(3);
  CHECK(script.counts().prefetch_refused == 1);
  CHECK(script.reads_started() == 1);
}

TEST_CASE("ResidencyLedger: a prefetch that ends as cancelled by nobody is not started again",
          "[tiers]") {
  LedgerScript script({.slot_count = 1});
  script.Guess(0);
  script.End(script.ReadOf(0), Why::kCancelled);
  CHECK(script.reads_started() == 1);
  CHECK(script.counts().free == 1);
  CHECK(script.counts().prefetch_wasted == 1);
  CHECK(script.counts().restarted_reads == 0);
}

TEST_CASE("ResidencyLedger: a prefetch that fails quarantines its key", "[tiers]") {
  LedgerScript script({.slot_count = 1});
  script.Guess(0);
  script.Fail(script.ReadOf(0));
  CHECK(script.ledger().IsQuarantined(TestKey(0)));
  CHECK(script.counts().prefetch_wasted == 1);
  CHECK(script.Failed(script.Reserve({0}), 0));
}

TEST_CASE("ResidencyLedger: a prefetch adds no heat", "[tiers]") {
  LedgerScript script({.slot_count = 2, .policy = "heat"});
  script.Use(0);
  script.Use(1);
  script.Use(1);
  for (int i = 0; i < 9; ++i) {
    script.Guess(0);
    script.StopGuessing(0);
  }
  script.Use(2);
  CHECK_FALSE(script.IsResident(0));
  CHECK(script.IsResident(1));
}

TEST_CASE("ResidencyLedger: an unused prefetch that is dropped is evicted before what was used",
          "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Use(0);
  script.Guess(1);
  script.Land(script.ReadOf(1));
  script.StopGuessing(1);
  CHECK(script.IsResident(1));
  script.Use(2);
  CHECK(script.IsResident(0));
  CHECK_FALSE(script.IsResident(1));
  CHECK(script.counts().prefetch_wasted == 1);
}

TEST_CASE(
    "ResidencyLedger: what nobody guesses any more goes on being read if it was read for another "
    "reason",
    "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Guess(0, PrefetchRoom::kFreeSlots);
  script.StopGuessing(0);
  CHECK(script.counts().cancelled_reads == 0);
  script.Guess(0, PrefetchRoom::kEvict);  // now somebody expects it
  script.StopGuessing(0);
  CHECK(script.counts().cancelled_reads == 1);
}

}  // namespace
}  // namespace moetier
