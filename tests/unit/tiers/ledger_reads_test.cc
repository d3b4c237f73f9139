#include <catch2/catch.hpp>

#include "tests/support/ledger_script.h"

namespace moetier {
namespace {

using Why = ReadEnded::Why;

TEST_CASE("ResidencyLedger: a cancelled load keeps its slot until it completes", "[tiers]") {
  LedgerScript script({.slot_count = 1});
  const WaveId first = script.Reserve({0});
  const Ticket load = script.ReadOf(0);
  script.Release(first);
  CHECK(script.WasCancelled(load));
  script.Reserve({1});
  CHECK(script.reads_started() == 1);  // the drive may still be writing into the only slot
  script.End(load, Why::kCancelled);
  CHECK(script.reads_started() == 2);
}

TEST_CASE("ResidencyLedger: a read that another granted wave waits for is not cancelled",
          "[tiers]") {
  LedgerScript script({.slot_count = 2});
  const WaveId first = script.Reserve({0});
  const WaveId second = script.Reserve({0});
  script.Release(first);
  CHECK_FALSE(script.WasCancelled(script.ReadOf(0)));
  script.Land(script.ReadOf(0));
  CHECK(script.Ready(second, 0));
  CHECK_FALSE(script.Ready(first, 0));  // released: no command after it
}

TEST_CASE("ResidencyLedger: a wave granted by a release joins the reads it gives up", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  const WaveId first = script.Reserve({0, 1});
  const WaveId waiting = script.Reserve({0});  // granted at once: joins
  const WaveId second = script.Reserve({2, 0});
  script.Release(waiting);
  CHECK(script.counts().waiting_waves == 1);
  script.Land(script.ReadOf(1));
  script.Release(first);  // frees key 1's slot: the second wave is granted and needs key 0
  CHECK_FALSE(script.WasCancelled(script.ReadOf(0)));
  script.Land(script.ReadOf(0));
  CHECK(script.Ready(second, 1)->resolution == Resolution::kInFlight);
}

TEST_CASE("ResidencyLedger: a key wanted again while it drains gets another slot", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  const WaveId first = script.Reserve({0});
  const Ticket drained = script.ReadOf(0);
  script.Release(first);
  const WaveId again = script.Reserve({0});
  const Ticket fresh = script.ReadOf(0);
  CHECK(fresh.slot != drained.slot);
  script.Land(drained);  // its key is loading elsewhere: these bytes are dropped
  CHECK_FALSE(script.Ready(again, 0));
  CHECK(script.counts().free == 1);
  script.Land(fresh);
  CHECK(script.Ready(again, 0)->slot == fresh.slot);
}

TEST_CASE("ResidencyLedger: a read that lands after its cancel is kept at the cold end",
          "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Use(1);
  const WaveId wave = script.Reserve({0});
  script.Release(wave);
  script.Land(script.ReadOf(0));
  CHECK(script.IsResident(0));
  CHECK(script.counts().kept_reads == 1);
  CHECK(script.counts().reserved == 0);
  script.Use(2);
  CHECK_FALSE(script.IsResident(0));  // though it came later than 1
  CHECK(script.IsResident(1));
}

TEST_CASE("ResidencyLedger: a wave that waits for a draining slot gets what was kept in it",
          "[tiers]") {
  LedgerScript script({.slot_count = 1});
  const WaveId first = script.Reserve({0});
  script.Release(first);
  const WaveId again = script.Reserve({0});
  CHECK(script.reads_started() == 1);
  script.Land(script.ReadOf(0));
  REQUIRE(script.Ready(again, 0));
  CHECK(script.Ready(again, 0)->resolution == Resolution::kHit);
}

TEST_CASE("ResidencyLedger: a failed read fails every wave that waits and quarantines the key",
          "[tiers]") {
  LedgerScript script({.slot_count = 1});
  const WaveId first = script.Reserve({0});
  const WaveId second = script.Reserve({0});
  script.Fail(script.ReadOf(0));
  CHECK(script.Failed(first, 0));
  CHECK(script.Failed(second, 0));
  CHECK(script.counts().free == 1);
  CHECK(script.counts().reserved == 0);
  CHECK(script.ledger().QuarantinedKeys() == std::vector{TestKey(0)});
  script.Release(first);
  script.Release(second);
  CHECK(script.Failed(script.Reserve({0}), 0));  // without another read
  CHECK(script.reads_started() == 1);
  CHECK(script.counts().failed == 1);
}

TEST_CASE("ResidencyLedger: a failed key of a wave leaves its others alone", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  const WaveId wave = script.Reserve({0, 1});
  script.Fail(script.ReadOf(0));
  script.Land(script.ReadOf(1));
  CHECK(script.Failed(wave, 0));
  CHECK(script.Ready(wave, 1));
  script.Release(wave);
  CHECK(script.counts().resident == 1);
  CHECK(script.counts().free == 1);
}

TEST_CASE("ResidencyLedger: the slot of a failed read goes to the wave that waits", "[tiers]") {
  LedgerScript script({.slot_count = 1});
  script.Reserve({0});
  script.Reserve({1});
  script.Fail(script.ReadOf(0));
  CHECK(script.reads_started() == 2);
}

TEST_CASE("ResidencyLedger: a lifted quarantine lets the key be read again", "[tiers]") {
  LedgerScript script({.slot_count = 1});
  script.Release(script.Reserve({7}));
  script.Fail(script.ReadOf(7));  // it fails while it drains: no less a failure
  CHECK(script.ledger().IsQuarantined(TestKey(7)));
  script.Lift(7);
  script.Lift(7);
  CHECK(script.counts().quarantined == 0);
  CHECK(script.Use(7) == Resolution::kMiss);
}

TEST_CASE("ResidencyLedger: a drained read's failure does not condemn a fresh read", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Release(script.Reserve({0}));
  const Ticket drained = script.ReadOf(0);
  const WaveId again = script.Reserve({0});
  script.Fail(drained);
  CHECK_FALSE(script.ledger().IsQuarantined(TestKey(0)));
  script.Land(script.ReadOf(0));
  CHECK(script.Ready(again, 0));
}

TEST_CASE("ResidencyLedger: a drained read that lands does not overrule a quarantine", "[tiers]") {
  LedgerScript script({.slot_count = 2});
  script.Release(script.Reserve({0}));
  const Ticket drained = script.ReadOf(0);
  script.Reserve({0});
  script.Fail(script.ReadOf(0));
  script.Land(drained);
  CHECK_FALSE(script.IsResident(0));
  CHECK(script.counts().free == 2);
}

TEST_CASE("ResidencyLedger: a read that ends as cancelled by nobody is started again", "[tiers]") {
  LedgerScript script({.slot_count = 1});
  const WaveId wave = script.Reserve({0});
  const Ticket lost = script.ReadOf(0);
  script.End(lost, Why::kCancelled);
  const Ticket again = script.ReadOf(0);
  CHECK(again != lost);
  CHECK(again.slot == lost.slot);
  CHECK(again.generation == lost.generation + 1);
  CHECK(script.counts().restarted_reads == 1);
  script.Land(lost);
  CHECK_FALSE(script.Ready(wave, 0));
  script.Land(again);
  CHECK(script.Ready(wave, 0));
}

TEST_CASE("ResidencyLedger: stale, repeated and invented tickets are refused and counted",
          "[tiers]") {
  LedgerScript script({.slot_count = 1});
  const WaveId first = script.Reserve({0});
  const Ticket old = script.ReadOf(0);
  script.Release(first);
  script.End(old, Why::kCancelled);
  const WaveId second = script.Reserve({1});
  const Ticket now = script.ReadOf(1);
  REQUIRE(now.slot == old.slot);
  script.Land(old);
  script.Land({.sequence = now.sequence, .slot = now.slot, .generation = now.generation + 1});
  script.Land({.sequence = now.sequence + 1, .slot = now.slot, .generation = now.generation});
  script.Land({.sequence = now.sequence, .slot = SlotIndex{1}, .generation = now.generation});
  CHECK_FALSE(script.Ready(second, 0));
  CHECK(script.counts().refused_tickets == 4);
  script.Land(now);
  CHECK(script.Ready(second, 0));
  script.Land(now);
  script.Fail(now);
  CHECK(script.counts().refused_tickets == 6);
  CHECK(script.IsResident(1));
}

TEST_CASE("ResidencyLedger: a reused slot has another generation", "[tiers]") {
  LedgerScript script({.slot_count = 1});
  script.Use(0);
  const Ticket first = script.ReadOf(0);
  script.Use(1);
  CHECK(script.ReadOf(1).slot == first.slot);
  CHECK(script.ReadOf(1).generation != first.generation);
}

TEST_CASE("ResidencyLedger: bad options are refused with what is wrong", "[tiers]") {
  const auto message = [](ResidencyLedger::Options options) {
    return ResidencyLedger::Create(std::move(options)).error().message;
  };
  CHECK(message({.slot_count = 0, .keys = TestKeys(1)}).find("0 slots") != std::string::npos);
  CHECK(message({.slot_count = 1}).find("0 keys") != std::string::npos);
  CHECK(message({.slot_count = 1, .keys = {TestKey(3), TestKey(3)}}).find("twice") !=
        std::string::npos);
  CHECK(message({.slot_count = 1, .keys = TestKeys(2), .hot_keys = {TestKey(9)}})
            .find("blk.0 expert 9") != std::string::npos);
  CHECK(message({.slot_count = 1, .policy = "mru", .keys = TestKeys(1)}).find("mru") !=
        std::string::npos);
}

}  // namespace
}  // namespace moetier
