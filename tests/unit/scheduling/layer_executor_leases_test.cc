// Leases over an executor without a device.

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/leases_bench.h"

namespace moetier {
namespace {

using Bench = LeasesBench;
using testing::ResidencyClient;

}  // namespace

TEST_CASE("Leases: what is resident is leased where it lies, what is not is absent",
          "[scheduling]") {
  Bench bench(8);
  ResidencyClient client = bench.Open(1);
  CHECK(client.Refusal(bench.Key(0)).why == NotLeasedWhy::kAbsent);
  bench.Use(0);
  const LedgerCounts before = bench.Counts(0);
  const SlotLease lease = client.Lease(bench.Key(0));
  CHECK(lease.pool == kRamPool);
  CHECK(lease.generation == 1);
  CHECK(bench.BytesOf(lease) == bench.RecordOf(bench.Key(0)));
  const LedgerCounts after = bench.Counts(0);
  CHECK(after.held == 1);
  CHECK(after.hits == before.hits);  // no use
  CHECK(bench.Status().pools[0].classes[0].leased == 1);
  const SlotLease second = client.Lease(bench.Key(0));
  CHECK(second.slot == lease.slot);
  CHECK(client.Release({lease.lease, lease.lease, LeaseId{999}}).get().value() == 1);
  CHECK(bench.Counts(0).held == 1);
  CHECK(client.Release({second.lease}).get().value() == 1);
  CHECK(bench.Counts(0).held == 0);
  CHECK(bench.Status().pools[0].classes[0].leased == 0);
}

TEST_CASE("Leases: a session that is not open is told so by every call", "[scheduling]") {
  Bench bench(8);
  ResidencyClient client = bench.Open(1);
  bench.executor.EndSession(client.id);
  CHECK(client.Acquire({bench.Key(0)}).get().error().reason == Reason::kUnknownSession);
  CHECK(client.Release({}).get().error().reason == Reason::kUnknownSession);
  CHECK(client.Transfer({bench.Key(0)}, kRamPool).get().error().reason == Reason::kUnknownSession);
  CHECK(client.Landed(TransferId{0}).get().error().reason == Reason::kUnknownSession);
  CHECK(client.Fence(kRamPool).get().error().reason == Reason::kUnknownSession);
  CHECK(client.Drain(kRamPool).get().error().reason == Reason::kUnknownSession);
  CHECK(client.Route(LayerIndex{1}, 1, {}).get().error().reason == Reason::kUnknownSession);
}

TEST_CASE("Leases: a leased slot keeps its bytes while 8 sessions evict around it",
          "[scheduling]") {
  Bench bench(7);
  ResidencyClient client = bench.Open(100);
  std::vector<std::pair<ExpertKey, SlotLease>> leases;
  for (const uint16_t expert : std::vector<uint16_t>{1, 4, 6}) {
    bench.Use(expert);
    leases.emplace_back(bench.Key(expert), client.Lease(bench.Key(expert)));
  }
  // Everything that may be leased is: the calls still come through, with the right bits.
  bench.Use(2);
  CHECK(client.Refusal(bench.Key(2)).why == NotLeasedWhy::kNoRoom);
  std::vector<std::jthread> sessions;
  std::atomic<uint32_t> wrong{0};
  for (uint64_t session = 1; session <= 8; ++session) {
    sessions.emplace_back([&, session] {
      for (uint32_t i = 0; i < 12; ++i) {
        LayerCall call =
            bench.Call(static_cast<uint16_t>(1 + i % 2), 1 + i % 20, 2, session * 1000 + i);
        call.session = SessionId{session};
        const Result<LayerOutput> answer = bench.Submit(call).get();
        if (!answer || answer->output != bench.model.Reference(call)) ++wrong;
      }
    });
  }
  for (int look = 0; look < 50; ++look) {
    for (const auto& [key, lease] : leases) {
      REQUIRE(bench.BytesOf(lease) == bench.RecordOf(key));
    }
  }
  sessions.clear();
  CHECK(wrong == 0);
  CHECK(bench.Counts(0).evictions > 0);
  for (const auto& [key, lease] : leases) {
    CHECK(bench.BytesOf(lease) == bench.RecordOf(key));
    const SlotLease again = client.Lease(key);
    CHECK(again.slot == lease.slot);
    CHECK(again.generation == lease.generation);
  }
}

TEST_CASE("Leases: a wave that waits for many slots is left them", "[scheduling]") {
  Bench bench(12, Delivery::kManual);
  ResidencyClient client = bench.Open(1);
  // Waves of 6: of two layers' 16 picks, the second waits for the first's slots.
  ExecutorBench::Answer first = bench.Submit(bench.Call(1, 8, 8, 1));
  ExecutorBench::Answer second = bench.Submit(bench.Call(2, 8, 8, 2));
  std::vector<ExpertKey> all;
  for (uint16_t expert = 0; expert < 8; ++expert) {
    all.push_back(bench.Key(expert, 1));
    all.push_back(bench.Key(expert, 2));
  }
  // Leases all that it may, again and again, while the calls go on.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto waits = [](const ExecutorBench::Answer& answer) {
    return answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  };
  while ((waits(first) || waits(second)) && std::chrono::steady_clock::now() < end) {
    (void)client.Acquire(all).get();
    bench.reader.CompleteNext();
  }
  REQUIRE_FALSE(waits(first));
  REQUIRE_FALSE(waits(second));
  CHECK(first.get().has_value());
  CHECK(second.get().has_value());
  CHECK(bench.Counts(0).held > 0);
}

TEST_CASE("Leases: a call above the quota leases nothing", "[scheduling]") {
  Bench bench(12);
  ResidencyClient client = bench.Open(1, 2);
  for (const uint16_t expert : std::vector<uint16_t>{0, 1, 2}) bench.Use(expert);
  const auto refused = client.Acquire({bench.Key(0), bench.Key(1), bench.Key(2)}).get();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().reason == Reason::kQuota);
  CHECK(refused.error().code == ErrorCode::kExhausted);
  CHECK(bench.Counts(0).held == 0);
  // What is absent takes nothing.
  const auto granted = client.Acquire({bench.Key(0), bench.Key(5), bench.Key(1)}).get();
  REQUIRE(granted.has_value());
  CHECK(std::get<NotLeased>(granted->at(1)).why == NotLeasedWhy::kAbsent);
  const TransferOutcome fill = client.TransferOne(bench.Key(5), kRamPool);
  CHECK(std::get<Error>(fill).reason == Reason::kQuota);
  ResidencyClient other = bench.Open(2, 2);
  CHECK(std::holds_alternative<SlotLease>(other.Acquire({bench.Key(2)}).get()->at(0)));
}

TEST_CASE("Leases: the end of the session frees its slots", "[scheduling]") {
  Bench bench(6, Delivery::kThread);
  ResidencyClient one = bench.Open(1);
  ResidencyClient two = bench.Open(2);
  for (const uint16_t expert : std::vector<uint16_t>{0, 1, 2}) bench.Use(expert);
  one.Lease(bench.Key(0));
  one.Lease(bench.Key(1));
  CHECK(two.Refusal(bench.Key(2)).why == NotLeasedWhy::kNoRoom);
  CHECK(two.Lease(bench.Key(1)).slot != SlotIndex{99});  // a slot that is leased has room
  bench.executor.EndSession(one.id);
  CHECK(bench.Counts(0).held == 1);
  CHECK(std::holds_alternative<SlotLease>(two.Acquire({bench.Key(2)}).get()->at(0)));
  CHECK(bench.Counts(0).held == 2);
}

TEST_CASE("Leases: LeasableBytes is what two calls leave, and follows the budget", "[scheduling]") {
  Bench bench(8);
  const Bytes of_class = bench.slot_bytes();
  const Bytes other = bench.model.geometry().size_classes[1].slot_bytes;
  CHECK(bench.residency.LeasableBytes(bench.id) == of_class * 4 + other * 4);
  CHECK(bench.residency.LeasableBytes(ModelId{99}) == Bytes());
  REQUIRE(bench.executor.LimitSlots({bench.id, kRamPool}, {6, 8}));
  CHECK(bench.residency.LeasableBytes(bench.id) == of_class * 2 + other * 4);
}

TEST_CASE("Leases: an Acquire waits for what loads, and leases it as it lands", "[scheduling]") {
  Bench bench(8, Delivery::kManual);
  ResidencyClient client = bench.Open(1);
  LayerCall call = bench.Call(1, 1, 1, 1);
  call.experts = {3};
  ExecutorBench::Answer answer = bench.Submit(call);
  bench.AwaitReads(1);
  auto lease = client.Acquire({bench.Key(3)}, {}, kLong);
  CHECK(lease.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready);
  bench.reader.CompleteAll();
  CHECK(std::holds_alternative<SlotLease>(lease.get()->at(0)));
  CHECK(answer.get().has_value());
  CHECK(bench.Counts(0).held == 1);
  CHECK(bench.Counts(0).misses == 1);
}

TEST_CASE("Leases: an Acquire that does not wait, or not long enough, joins the transfer",
          "[scheduling]") {
  Bench bench(8, Delivery::kManual);
  ResidencyClient client = bench.Open(1);
  LayerCall call = bench.Call(1, 1, 1, 1);
  call.experts = {3};
  ExecutorBench::Answer answer = bench.Submit(call);
  bench.AwaitReads(1);
  const NotLeased at_once = client.Refusal(bench.Key(3));
  CHECK(at_once.why == NotLeasedWhy::kLoading);
  CHECK(at_once.transfer == TransferId{1});
  const NotLeased late = client.Refusal(bench.Key(3), {}, std::chrono::milliseconds(2));
  CHECK(late.why == NotLeasedWhy::kLoading);
  CHECK(late.transfer == TransferId{1});
  CHECK(bench.reader.pending().size() == 1);
  bench.reader.CompleteAll();
  CHECK(client.AwaitTransfer(TransferId{1}).failed.empty());
  CHECK(answer.get().has_value());
  CHECK(bench.Counts(0).held == 0);
}

TEST_CASE("Leases: a smaller budget is refused while they need more, with the numbers",
          "[scheduling]") {
  Bench bench(10);
  ResidencyClient client = bench.Open(1);
  std::vector<SlotLease> leases;
  for (const uint16_t expert : std::vector<uint16_t>{0, 1, 2}) {
    bench.Use(expert);
    leases.push_back(client.Lease(bench.Key(expert)));
  }
  const Status refused = bench.executor.LimitSlots({bench.id, kRamPool}, {6, 10});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().reason == Reason::kNoRoom);
  CHECK_THAT(refused.error().message, Catch::Contains("3 are leased to sessions and 4 are kept"));
  REQUIRE(bench.executor.LimitSlots({bench.id, kRamPool}, {7, 10}));
  bench.Use(3);
  CHECK(client.Refusal(bench.Key(3)).why == NotLeasedWhy::kNoRoom);
  for (uint16_t i = 0; i < 3; ++i) {
    CHECK(bench.BytesOf(leases[i]) == bench.RecordOf(bench.Key(i)));
  }
  CHECK(client.Release({leases[0].lease}).get().value() == 1);
  CHECK(bench.executor.LimitSlots({bench.id, kRamPool}, {6, 10}));
}

TEST_CASE("Leases: a model is not unloaded while its slots are leased", "[scheduling]") {
  Bench bench(8, Delivery::kManual);
  ResidencyClient client = bench.Open(1);
  const auto transfer = std::get<TransferId>(client.TransferOne(bench.Key(0), kRamPool));
  bench.reader.CompleteAll();
  client.AwaitTransfer(transfer);
  const SlotLease lease = client.Lease(bench.Key(0));
  const auto refused = bench.executor.RemoveModel(bench.id);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kFailedPrecondition);
  CHECK_THAT(refused.error().message, Catch::Contains("1 sessions hold 1 leases"));
  CHECK(client.Lease(bench.Key(0)).slot == lease.slot);  // it serves on
  bench.executor.EndSession(client.id);

  // Without leases it is, and what was under way is told.
  ResidencyClient other = bench.Open(2);
  other.TransferOne(bench.Key(5), kRamPool);
  auto waits = other.Acquire({bench.Key(5)}, {}, kLong);
  auto removed =
      std::async(std::launch::async, [&] { return bench.executor.RemoveModel(bench.id).value(); });
  CHECK(waits.get().error().reason == Reason::kDraining);
  while (removed.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    bench.reader.CompleteAll();
  }
  CHECK(removed.get() != nullptr);
  CHECK(other.Acquire({bench.Key(5)}).get().error().reason == Reason::kDraining);
  REQUIRE(other.heard->ended().size() == 1);
  CHECK(other.heard->ended()[0].failed->reason == Reason::kDraining);
}

TEST_CASE("Leases: a stop answers the calls that wait, and leases do not hold it up",
          "[scheduling]") {
  Bench bench(8, Delivery::kManual);
  ResidencyClient client = bench.Open(1);
  client.TransferOne(bench.Key(0), kRamPool);
  bench.AwaitReads(1);
  bench.reader.CompleteAll();
  client.AwaitTransfer(TransferId{1});
  client.Lease(bench.Key(0));
  client.TransferOne(bench.Key(1), kRamPool);
  auto lease = client.Acquire({bench.Key(1)}, {}, kLong);
  auto landed = client.Landed(TransferId{2}, kLong);
  auto stopped = std::async(std::launch::async, [&] { bench.executor.Stop(); });
  CHECK(lease.get().error().reason == Reason::kDraining);
  CHECK(landed.get().error().reason == Reason::kDraining);
  while (stopped.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    bench.reader.CompleteAll();
  }
  CHECK(client.Acquire({bench.Key(0)}).get().error().reason == Reason::kDraining);
}

TEST_CASE("Leases: a session's end cancels its calls that wait and its reads", "[scheduling]") {
  Bench bench(8, Delivery::kManual);
  ResidencyClient client = bench.Open(1);
  ResidencyClient other = bench.Open(2);
  client.TransferOne(bench.Key(1), kRamPool);
  client.TransferOne(bench.Key(2), kRamPool);
  auto kept = other.Acquire({bench.Key(2)}, {}, kLong);
  auto lease = client.Acquire({bench.Key(1)}, {}, kLong);
  bench.executor.EndSession(client.id);
  CHECK(lease.get().error().code == ErrorCode::kCancelled);
  bench.Counts(0);
  uint32_t cancelled = 0;
  for (const ReadRequest& read : bench.reader.pending()) {
    if (bench.reader.cancel_asked(read.id)) ++cancelled;
  }
  CHECK(cancelled == 1);  // the other's goes on
  bench.reader.CompleteAll();
  CHECK(std::holds_alternative<SlotLease>(kept.get()->at(0)));
}

}  // namespace moetier
