// Transfers to RAM, victims and routes over an executor without a device.

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "tests/support/leases_bench.h"

namespace moetier {
namespace {

using Bench = LeasesBench;
using testing::ResidencyClient;

}  // namespace

TEST_CASE("Fills: what is absent is read, what is resident is in place", "[scheduling]") {
  Bench bench(8);
  ResidencyClient client = bench.Open(1);
  const auto first = std::get<TransferId>(client.TransferOne(bench.Key(0), kRamPool));
  CHECK(first == TransferId{1});
  CHECK(client.AwaitTransfer(first).failed.empty());
  CHECK(std::get<InPlace>(client.TransferOne(bench.Key(0), kRamPool)).generation == 1);
  CHECK(client.Lease(bench.Key(0)).generation == 1);
  const LedgerCounts counts = bench.Counts(0);
  CHECK(counts.misses == 0);  // no call's
  REQUIRE(client.heard->ended().size() == 1);
  CHECK(client.heard->ended()[0].key == bench.Key(0));
}

TEST_CASE("Fills: no key of a call makes room for another", "[scheduling]") {
  Bench bench(6, Delivery::kManual);
  ResidencyClient client = bench.Open(1);
  const std::jthread completer = bench.reader.KeepCompleting();
  for (uint16_t expert = 0; expert < 6; ++expert) bench.Use(expert);
  // The least recent, before and after what evicts.
  const auto outcomes =
      client.Transfer({bench.Key(0), bench.Key(6), bench.Key(1), bench.Key(7)}, kRamPool)
          .get()
          .value();
  CHECK(std::holds_alternative<TransferId>(outcomes[1]));
  CHECK(std::holds_alternative<TransferId>(outcomes[3]));
  for (uint16_t expert = 0; expert < 2; ++expert) {
    CHECK(std::holds_alternative<InPlace>(outcomes[expert * 2u]));
    CHECK(std::holds_alternative<InPlace>(client.TransferOne(bench.Key(expert), kRamPool)));
  }
  CHECK(bench.Status().pools[0].classes[0].reserved <= 2);  // what is being read
}

TEST_CASE("Fills: one read serves a call, two sessions and a waiting Acquire", "[scheduling]") {
  Bench bench(8, Delivery::kManual);
  ResidencyClient one = bench.Open(1);
  ResidencyClient two = bench.Open(2);
  LayerCall call = bench.Call(1, 1, 1, 1);
  call.experts = {3};
  ExecutorBench::Answer answer = bench.Submit(call);
  bench.AwaitReads(1);
  const auto transfer = std::get<TransferId>(one.TransferOne(bench.Key(3), kRamPool));
  CHECK(std::get<TransferId>(one.TransferOne(bench.Key(3), kRamPool)) == transfer);
  CHECK(std::holds_alternative<TransferId>(two.TransferOne(bench.Key(3), kRamPool)));
  auto lease = two.Acquire({bench.Key(3)}, {}, kLong);
  auto landed = one.Landed(TransferId{0}, kLong);
  bench.Counts(0);  // a round trip: all have been taken
  CHECK(bench.reader.pending().size() == 1);
  bench.reader.CompleteAll();
  CHECK(std::holds_alternative<SlotLease>(lease.get()->at(0)));
  CHECK(landed.get()->all_done_below == TransferId{2});
  CHECK(answer.get().has_value());
}

TEST_CASE("Fills: a failed read fails the transfer and is quarantined for the next",
          "[scheduling]") {
  Bench bench(8, Delivery::kManual);
  ResidencyClient client = bench.Open(1);
  const ExpertKey bad = bench.Key(2);
  bench.reader.Inject({.kind = FakeRecordReader::Fault::Kind::kError,
                       .file = bench.file,
                       .offset = bench.model.Locate(bad.layer, bad.expert).offset,
                       .error_number = 5});
  const auto transfer = std::get<TransferId>(client.TransferOne(bad, kRamPool));
  auto lease = client.Acquire({bad}, {}, kLong);
  bench.Counts(0);
  bench.reader.CompleteAll();
  CHECK(std::get<NotLeased>(lease.get()->at(0)).why == NotLeasedWhy::kQuarantined);
  const LandedTransfers landed = client.AwaitTransfer(transfer);
  REQUIRE(landed.failed.size() == 1);
  CHECK(landed.failed[0].transfer == transfer);
  CHECK(landed.failed[0].failed->code == ErrorCode::kDataLoss);
  const TransferOutcome again = client.TransferOne(bad, kRamPool);
  CHECK(std::get<Error>(again).reason == Reason::kQuarantined);
  CHECK(client.Refusal(bad).why == NotLeasedWhy::kQuarantined);
  CHECK(bench.Status().pools[0].classes[0].reserved == 0);
  bench.reader.ClearFaults();
  bench.executor.LiftQuarantine(bench.id);
  const auto mended = std::get<TransferId>(client.TransferOne(bad, kRamPool));
  CHECK(mended == TransferId{2});
  bench.AwaitReads(1);
  bench.reader.CompleteAll();
  client.AwaitTransfer(mended);
  CHECK(client.Lease(bad).pool == kRamPool);
}

TEST_CASE("Fills: there is no room beyond what calls leave, nor for pins beside leases",
          "[scheduling]") {
  Bench bench(6, Delivery::kManual);  // two may be kept
  ResidencyClient client = bench.Open(1);
  const auto outcomes =
      client.Transfer({bench.Key(0), bench.Key(1), bench.Key(2)}, kRamPool).get().value();
  CHECK(std::holds_alternative<TransferId>(outcomes[0]));
  CHECK(std::holds_alternative<TransferId>(outcomes[1]));
  CHECK(std::get<Error>(outcomes[2]).reason == Reason::kNoRoom);
  CHECK(std::get<Error>(outcomes[2]).code == ErrorCode::kExhausted);
  CHECK(bench.executor.Pin({bench.Key(5)}).error().reason == Reason::kNoRoom);
  bench.reader.CompleteAll();
  client.AwaitTransfer(TransferId{2});
  client.Lease(bench.Key(0));
  const Result<uint32_t> refused = bench.executor.Pin({bench.Key(0), bench.Key(5)});
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message, Catch::Contains("1 are leased to sessions"));
  const std::jthread completer = bench.reader.KeepCompleting();
  REQUIRE(bench.executor.Pin({bench.Key(5)}).has_value());
  // Both ways: what pins take is not leased.
  CHECK(client.Refusal(bench.Key(1)).why == NotLeasedWhy::kNoRoom);
  bench.executor.Unpin({bench.Key(5)});
  CHECK(std::holds_alternative<SlotLease>(client.Acquire({bench.Key(1)}).get()->at(0)));
}

TEST_CASE("Victims: each eviction is told once to the model's listeners", "[scheduling]") {
  Bench bench(2);
  ResidencyClient client = bench.Open(1);
  for (uint16_t expert = 0; expert < 5; ++expert) bench.Use(expert);
  bench.Counts(0);
  bench.Counts(0);  // a turn of the loop later all are told
  const std::vector<Victim> victims = client.heard->victims();
  REQUIRE(victims.size() == 3);
  for (uint16_t expert = 0; expert < 3; ++expert) {
    CHECK(victims[expert].key == bench.Key(expert));
    CHECK(victims[expert].pool == kRamPool);
  }
  CHECK(victims[0].generation == 1);
  CHECK(victims[2].generation == 2);
}

TEST_CASE("Route: tells where experts are, counts as an access, holds nothing", "[scheduling]") {
  Bench bench(8, Delivery::kManual);
  ResidencyClient client = bench.Open(1);
  client.TransferOne(bench.Key(0), kRamPool);
  bench.AwaitReads(1);
  bench.reader.CompleteAll();
  client.AwaitTransfer(TransferId{1});
  client.TransferOne(bench.Key(1), kRamPool);
  const LedgerCounts before = bench.Counts(0);
  const std::vector<RoutedExpert> routed =
      client
          .Route(LayerIndex{1}, 1, {ExpertIndex{2}, ExpertIndex{0}, ExpertIndex{2}, ExpertIndex{1}})
          .get()
          .value();
  REQUIRE(routed.size() == 3);
  CHECK(routed[0].expert == ExpertIndex{2});
  CHECK(routed[0].residence == Residence::kAbsent);
  CHECK(routed[1].residence == Residence::kResident);
  CHECK(routed[2].residence == Residence::kLoading);
  CHECK(routed[0].lane == 0);
  const LedgerCounts after = bench.Counts(0);
  CHECK(after.hits == before.hits + 1);
  CHECK(after.misses == before.misses + 1);
  CHECK(after.in_flight == before.in_flight + 1);
  CHECK(after.held == before.held);
  CHECK(after.loading == before.loading);
  bench.executor.WithModel(bench.id, [&](LoadedModel& each) {
    CHECK(each.heat->Heat(LayerIndex{1}, ExpertIndex{2}) > 0);
    CHECK(each.heat->Heat(LayerIndex{1}, ExpertIndex{5}) == 0);
  });
}

TEST_CASE("Fences and drains of host memory pass at once", "[scheduling]") {
  Bench bench(8);
  ResidencyClient client = bench.Open(1);
  CHECK(client.Fence(kRamPool).get().has_value());
  CHECK(client.Drain(kRamPool).get().has_value());
  const TransferOutcome push = client.TransferOne(bench.Key(0), PoolId{1});
  CHECK(std::get<Error>(push).code == ErrorCode::kFailedPrecondition);
}

}  // namespace moetier
