// What may happen while a driver exports a slot's memory: the rest of the daemon goes on, and what
// ends the lease meanwhile leaves the client nothing.

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>

#include "tests/support/eventually.h"
#include "tests/support/slot_daemon.h"

namespace moetier::testing {
namespace {

constexpr std::chrono::seconds kLong{60};

// A client that waits for a slot whose export the driver does not end.
class Exporting {
 public:
  explicit Exporting(SlotDaemon& daemon) : daemon_(daemon), lease(daemon.Lease(1, kDevicePool)) {
    daemon.card->HoldExports();
    opened_ = std::async(std::launch::async, [&daemon, id = lease.lease] {
      return std::make_unique<OpenedSlot>(daemon, id);
    });
    daemon.card->AwaitExports(1);
  }
  ~Exporting() { daemon_.card->LetExports(); }

  // Ends the export, and gives what the client gets.
  std::unique_ptr<OpenedSlot> End() {
    daemon_.card->LetExports();
    return opened_.get();
  }

 private:
  SlotDaemon& daemon_;
  std::future<std::unique_ptr<OpenedSlot>> opened_;

 public:
  const SlotLease lease;
};

}  // namespace

TEST_CASE("SlotExport: the executor goes on while the driver exports", "[fastlane]") {
  SlotDaemon daemon;
  const std::vector<std::byte> record = daemon.RecordInRam(1);
  Exporting exporting(daemon);
  auto status = std::async(std::launch::async, [&] { return daemon.leased(); });
  const bool went_on = status.wait_for(kLong) == std::future_status::ready;
  CHECK(went_on);
  const auto opened = exporting.End();
  CHECK(status.get() == 1);
  REQUIRE(opened->status == MOETIER_OK);
  CHECK(opened->Record() == record);
}

TEST_CASE(
    "SlotExport: a lease that is released meanwhile gives nothing, and its slot stays so long",
    "[fastlane]") {
  SlotDaemon daemon;
  const ModelPool vram{daemon.Key(0).model, kDevicePool};
  REQUIRE(daemon.core().SetBudget(vram, 2_MiB, {}));
  Exporting exporting(daemon);
  daemon.Release(exporting.lease);
  CHECK(daemon.leased() == 1);
  // More than there are slots: they evict one another, but for the one that is exported.
  const auto evictions = [&] {
    uint64_t sum = 0;
    const StatusSnapshot status = daemon.core().Snapshot();
    for (const SizeClassSnapshot& slots : status.pools.at(1).classes) sum += slots.evictions;
    return sum;
  };
  for (uint16_t expert = 2; expert < 32; ++expert) {
    daemon.Release(daemon.Lease(expert, kDevicePool));
  }
  CHECK(evictions() > 1);
  const SlotLease again = daemon.client->Lease(daemon.Key(1), kDevicePool);
  CHECK(again.slot == exporting.lease.slot);
  CHECK(again.generation == exporting.lease.generation);
  daemon.Release(again);

  const auto opened = exporting.End();
  CHECK(opened->status == MOETIER_REFUSED);
  CHECK(opened->reason() == Reason::kUnknownLease);
  CHECK_THAT(opened->error.text, Catch::Contains("ended while its slot was exported"));
  CHECK(daemon.leased() == 0);
}

TEST_CASE("SlotExport: a session that ends meanwhile gives nothing", "[fastlane]") {
  SlotDaemon daemon;
  Exporting exporting(daemon);
  daemon.core().SessionEnded(SessionId{MapFixture::kSession});
  CHECK(exporting.End()->reason() == Reason::kUnknownSession);
  CHECK(daemon.leased() == 0);
}

TEST_CASE("SlotExport: a model is not unloaded while a slot of it is exported", "[fastlane]") {
  SlotDaemon daemon;
  Exporting exporting(daemon);
  daemon.Release(exporting.lease);
  const Status refused = daemon.core().UnloadModel("demo");
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::kFailedPrecondition);
  CHECK_THAT(refused.error().message, Catch::Contains("exporting 1 of its slots"));
  (void)exporting.End();
  CHECK(daemon.core().UnloadModel("demo"));
}

TEST_CASE("SlotExport: a device that is lost meanwhile gives nothing", "[fastlane]") {
  SlotDaemon daemon;
  Exporting exporting(daemon);
  daemon.card->Fail();
  (void)daemon.client->Transfer({daemon.Key(2)}, kDevicePool).get();
  REQUIRE(Eventually([&] {
    const auto fallbacks = daemon.core().Snapshot().fallbacks;
    return !fallbacks.empty() && fallbacks.back().name == "device:lost";
  }));
  const auto opened = exporting.End();
  CHECK(opened->status == MOETIER_REFUSED);
  CHECK(opened->error.code == 14);  // UNAVAILABLE
  CHECK_THAT(opened->error.text, Catch::Contains("the card has failed"));
  const OpenedSlot later(daemon, exporting.lease.lease);
  CHECK(later.error.code == 14);
}

TEST_CASE("SlotExport: the daemon's stop waits for the driver, and the client gets nothing",
          "[fastlane]") {
  SlotDaemon daemon;
  Exporting exporting(daemon);
  auto stopped = std::async(std::launch::async, [&] {
    daemon.fixture.lane.server->Stop(std::chrono::steady_clock::now());
  });
  REQUIRE(Eventually([&] {
    const auto landed = daemon.client->Landed(TransferId{0}).get();
    return !landed && landed.error().reason == Reason::kDraining;
  }));
  const auto opened = exporting.End();
  CHECK(stopped.wait_for(kLong) == std::future_status::ready);
  // It may be told so yet, or find the socket closed.
  if (opened->status != MOETIER_GONE) CHECK(opened->reason() == Reason::kDraining);
}

}  // namespace moetier::testing
