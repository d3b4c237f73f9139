// Calls whose client has gone or has lost the reply, over an executor without a device.

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "tests/support/leases_bench.h"

namespace moetier {
namespace {

using Bench = LeasesBench;
using testing::ResidencyClient;

template <typename T>
bool Waits(const std::future<T>& answer) {
  return answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

// `expert` resident, by a read that the test completes.
void Read(Bench& bench, ResidencyClient& client, uint16_t expert) {
  client.TransferOne(bench.Key(expert), kRamPool);
  bench.reader.CompleteAll();
  while (client.heard->ended().empty()) std::this_thread::yield();
}

}  // namespace

TEST_CASE("Releases: leases whose reply was lost end by their keys, but for those kept",
          "[scheduling]") {
  Bench bench(10);
  ResidencyClient client = bench.Open(1);
  ResidencyClient other = bench.Open(2);
  for (const uint16_t expert : std::vector<uint16_t>{0, 1, 2}) bench.Use(expert);
  (void)client.Acquire({bench.Key(0), bench.Key(1)}).get();  // nobody has read the numbers
  const SlotLease known = client.Lease(bench.Key(0));
  const SlotLease others = other.Lease(bench.Key(1));
  const SlotLease elsewhere = client.Lease(bench.Key(2));
  CHECK(client.ReleaseKeys({bench.Key(0), bench.Key(1)}, kDevicePool).get().value() == 0);
  CHECK(client.ReleaseKeys({bench.Key(0), bench.Key(1)}, {}, {known.lease}).get().value() == 2);
  CHECK(client.ReleaseKeys({bench.Key(0), bench.Key(1)}, {}, {known.lease}).get().value() == 0);
  CHECK(bench.Counts(0).held == 3);
  CHECK(client.Release({known.lease, elsewhere.lease}).get().value() == 2);
  CHECK(other.Release({others.lease}).get().value() == 1);
  CHECK(bench.Counts(0).held == 0);
}

TEST_CASE("Releases: an Acquire that waits for a released key, or has it, ends and leases nothing",
          "[scheduling]") {
  Bench bench(12, Delivery::kManual);
  ResidencyClient client = bench.Open(1);
  ResidencyClient other = bench.Open(2);
  Read(bench, client, 0);
  for (uint16_t expert = 3; expert < 6; ++expert) other.TransferOne(bench.Key(expert), kRamPool);
  const uint32_t awaited = bench.Counts(0).held;
  auto has_it = client.Acquire({bench.Key(0), bench.Key(3)}, {}, kLong);
  auto waits_for_it = client.Acquire({bench.Key(0), bench.Key(4)}, {}, kLong);
  auto another = client.Acquire({bench.Key(5)}, {}, kLong);
  CHECK(bench.Counts(0).held == awaited + 1);  // a slot twice leased
  CHECK(client.ReleaseKeys({bench.Key(4)}).get().value() == 0);
  CHECK(waits_for_it.get().error().code == ErrorCode::kCancelled);
  CHECK(Waits(has_it));
  CHECK(client.ReleaseKeys({bench.Key(0)}).get().value() == 1);
  CHECK(has_it.get().error().code == ErrorCode::kCancelled);
  CHECK(bench.Counts(0).held == awaited);
  CHECK(Waits(another));
  bench.reader.CompleteAll();
  CHECK(std::holds_alternative<SlotLease>(another.get()->at(0)));
  CHECK(bench.Counts(0).held == 1);
}

TEST_CASE("Cancels: calls that were cancelled leave their place to others at once",
          "[scheduling]") {
  Bench bench(8, Delivery::kManual);
  ResidencyClient client = bench.Open(1);
  std::vector<ResidencyClient::Later<LandedTransfers>> waiting;
  for (uint64_t i = 1; i <= ResidencyBook::kMaxWaiting; ++i) {
    waiting.push_back(client.Landed(TransferId{0}, kLong, CallId{i}));
  }
  CHECK(client.Landed(TransferId{0}, kLong, CallId{100}).get().error().reason == Reason::kQuota);
  client.Cancel(CallId{100});  // was answered
  client.Cancel(CallId{0});    // names no call
  bench.Counts(0);
  CHECK(std::ranges::all_of(waiting, Waits<Result<LandedTransfers>>));
  for (uint64_t i = 1; i <= ResidencyBook::kMaxWaiting; ++i) client.Cancel(CallId{i});
  for (auto& call : waiting) CHECK(call.get().error().code == ErrorCode::kCancelled);
  auto landed = client.Landed(TransferId{0}, kLong);
  bench.Counts(0);
  CHECK(Waits(landed));
  client.TransferOne(bench.Key(0), kRamPool);
  bench.reader.CompleteAll();
  CHECK(landed.get().has_value());
}

TEST_CASE("Cancels: a cancelled Acquire gives back what it has, and wants no more",
          "[scheduling]") {
  Bench bench(8, Delivery::kManual);
  ResidencyClient client = bench.Open(1);
  ResidencyClient other = bench.Open(2);
  Read(bench, client, 0);
  other.TransferOne(bench.Key(1), kRamPool);
  const uint32_t awaited = bench.Counts(0).held;
  auto acquired = client.Acquire({bench.Key(0), bench.Key(1)}, {}, kLong, CallId{7});
  other.Cancel(CallId{7});  // another session's
  CHECK(bench.Counts(0).held == awaited + 1);
  CHECK(Waits(acquired));
  client.Cancel(CallId{7});
  CHECK(acquired.get().error().code == ErrorCode::kCancelled);
  CHECK(bench.Counts(0).held == awaited);
  bench.executor.EndSession(other.id);
  bench.Counts(0);
  REQUIRE(bench.reader.pending().size() == 1);
  CHECK(bench.reader.cancel_asked(bench.reader.pending()[0].id));
}

TEST_CASE("Cancels: one that comes after the answer takes no lease", "[scheduling]") {
  Bench bench(8);
  ResidencyClient client = bench.Open(1);
  bench.Use(0);
  const auto granted = client.Acquire({bench.Key(0)}, {}, kLong, CallId{7}).get();
  client.Cancel(CallId{7});
  CHECK(client.Release({std::get<SlotLease>(granted->at(0)).lease}).get().value() == 1);
}

TEST_CASE("Leases: an Acquire joins as many transfers as the session may have, and no more",
          "[scheduling]") {
  Bench bench(8, Delivery::kManual);  // 4 for calls
  ResidencyClient client = bench.Open(1);
  ResidencyClient other = bench.Open(2);
  bench.reader.HoldNew(true);  // its number stays the oldest that is under way
  CHECK(std::get<TransferId>(client.TransferOne(bench.Key(0), kRamPool)) == TransferId{1});
  bench.AwaitReads(1);
  bench.reader.HoldNew(false);
  // Three at a time of 15, which drive each other out, until one more may be asked for.
  auto next_three = [&, next = 0]() mutable {
    std::vector<ExpertKey> keys;
    for (int i = 0; i < 3; ++i, next = (next + 1) % 15) {
      const auto expert = static_cast<uint16_t>(next % 8);
      keys.push_back(next < 8 ? bench.Key(expert, 2) : bench.Key(expert + 1, 1));
    }
    return keys;
  };
  uint64_t last = 1;
  while (last + 1 < ResidencyBook::kMaxTransfersTold) {
    std::vector<ExpertKey> keys = next_three();
    keys.resize(std::min<size_t>(3, ResidencyBook::kMaxTransfersTold - 1 - last));
    last = Raw(std::get<TransferId>(client.Transfer(keys, kRamPool).get()->back()));
    bench.reader.CompleteAll();
    (void)client.Landed(TransferId{last - 1}, kLong).get();
  }
  const std::vector<ExpertKey> loading = next_three();
  (void)other.Transfer(loading, kRamPool).get();
  uint32_t joined = 0;
  const auto outcomes = client.Acquire(loading).get();
  for (const LeaseOutcome& outcome : outcomes.value()) {
    const auto& refused = std::get<NotLeased>(outcome);
    CHECK(refused.why == NotLeasedWhy::kLoading);
    if (refused.transfer) ++joined;
  }
  CHECK(joined == 1);
  bench.reader.Release();
}

}  // namespace moetier
