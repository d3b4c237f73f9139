#include "daemon/scheduling/residency_book.h"

#include <catch2/catch.hpp>
#include <memory>
#include <optional>

#include "tests/support/residency_client.h"

namespace moetier {
namespace {

using Outcomes = std::vector<LeaseOutcome>;

constexpr ModelId kModel{1};
constexpr SessionId kOne{1};
constexpr SessionId kTwo{2};
constexpr TimePoint kBegin{};
constexpr std::chrono::seconds kLater{1};

Place InRam(uint16_t expert) { return {{kModel, LayerIndex{0}, ExpertIndex{expert}}, PoolId{0}}; }

// A book with sessions of 10 bytes, and the answers of its calls.
struct Desk {
  Desk() {
    book.Open({.id = kOne, .model = kModel, .max_leased = 10_B, .listener = heard});
    book.Open({.id = kTwo, .model = kModel, .max_leased = 10_B});
  }
  void Wait(SessionId session, uint16_t expert, TimePoint deadline = kBegin + kLater) {
    ResidencyBook::WaitingAcquire call;
    call.outcomes = {NotLeased{}};
    call.loading.push_back({.index = 0, .place = InRam(expert), .charge = 4_B});
    call.deadline = deadline;
    call.done = [this](Result<Outcomes> result) { acquired.push_back(std::move(result)); };
    book.Wait(session, std::move(call));
  }
  void AskLanded(SessionId session, uint64_t after, std::optional<TimePoint> deadline) {
    book.Landed({.session = session, .after = TransferId{after}}, deadline,
                [this](Result<LandedTransfers> result) { landed.push_back(std::move(result)); });
  }
  void Land(uint16_t expert) {
    book.Land(InRam(expert), [this] {
      ++held;
      return SlotLease{.slot = SlotIndex{7}};
    });
  }
  void Fail(uint16_t expert) {
    book.Fail(InRam(expert), {ErrorCode::kDataLoss, Reason::kReadError, "gone"},
              NotLeasedWhy::kQuarantined);
  }

  std::shared_ptr<testing::HeardResidency> heard = std::make_shared<testing::HeardResidency>();
  ResidencyBook book;
  std::vector<Result<Outcomes>> acquired;
  std::vector<Result<LandedTransfers>> landed;
  uint32_t held = 0;
};

}  // namespace

TEST_CASE("ResidencyBook: leases and unfinished transfers are charged until they end",
          "[scheduling]") {
  Desk desk;
  const SlotLease lease = desk.book.Lease(kOne, InRam(0), {}, 6_B);
  CHECK(desk.book.CheckQuota(kOne, 4_B));
  CHECK(desk.book.CheckQuota(kOne, 5_B).error().reason == Reason::kQuota);
  CHECK(desk.book.CheckQuota(kTwo, 10_B));
  desk.book.Join(kOne, InRam(1), 3_B);
  CHECK_FALSE(desk.book.CheckQuota(kOne, 2_B));
  desk.Land(1);
  CHECK(desk.book.CheckQuota(kOne, 4_B));
  CHECK_FALSE(desk.book.EndLease(kTwo, lease.lease));  // it is another's
  CHECK(desk.book.EndLease(kOne, lease.lease) == InRam(0));
  CHECK_FALSE(desk.book.EndLease(kOne, lease.lease));
  CHECK(desk.book.CheckQuota(kOne, 10_B));
}

TEST_CASE("ResidencyBook: leases have numbers that no other session has", "[scheduling]") {
  Desk desk;
  const LeaseId first = desk.book.Lease(kOne, InRam(0), {}, 1_B).lease;
  const LeaseId second = desk.book.Lease(kTwo, InRam(0), {}, 1_B).lease;
  CHECK(first != second);
  CHECK(desk.book.LeasedOf(kModel).leases == 2);
  CHECK(desk.book.LeasedOf(kModel).sessions == 2);
  CHECK(desk.book.LeasedOf(ModelId{9}).leases == 0);
}

TEST_CASE("ResidencyBook: a transfer is joined within a session and numbered anew after its end",
          "[scheduling]") {
  Desk desk;
  CHECK(desk.book.Join(kOne, InRam(0), 1_B) == TransferId{1});
  CHECK(desk.book.Join(kOne, InRam(1), 1_B) == TransferId{2});
  CHECK(desk.book.Join(kOne, InRam(0), 1_B) == TransferId{1});
  CHECK(desk.book.Join(kTwo, InRam(0), 1_B) == TransferId{1});
  CHECK(desk.book.IsWanted(InRam(0)));
  desk.Land(0);
  CHECK_FALSE(desk.book.IsWanted(InRam(0)));
  CHECK(desk.book.Join(kOne, InRam(0), 1_B) == TransferId{3});
  REQUIRE(desk.heard->ended().size() == 1);
  CHECK(desk.heard->ended()[0].transfer == TransferId{1});
  CHECK_FALSE(desk.heard->ended()[0].failed);
}

TEST_CASE("ResidencyBook: Landed tells below which number all is done, and what is done above",
          "[scheduling]") {
  Desk desk;
  for (uint16_t expert = 0; expert < 4; ++expert) desk.book.Join(kOne, InRam(expert), 1_B);
  desk.Land(0);
  desk.Land(2);
  desk.Fail(3);
  desk.AskLanded(kOne, 0, {});
  REQUIRE(desk.landed.size() == 1);
  const LandedTransfers told = desk.landed[0].value();
  CHECK(told.all_done_below == TransferId{2});
  CHECK(told.done_above == std::vector{TransferId{3}, TransferId{4}});
  REQUIRE(told.failed.size() == 1);
  CHECK(told.failed[0].transfer == TransferId{4});
  CHECK(told.failed[0].failed->reason == Reason::kReadError);
  desk.Land(1);
  desk.AskLanded(kOne, 3, {});
  CHECK(desk.landed[1].value().all_done_below == TransferId{5});
  CHECK(desk.landed[1].value().failed.size() == 1);  // not asked past it yet
  desk.AskLanded(kOne, 4, {});
  desk.AskLanded(kOne, 0, {});
  CHECK(desk.landed[3].value().failed.empty());
}

TEST_CASE("ResidencyBook: Landed waits for a number above the one that is named", "[scheduling]") {
  Desk desk;
  desk.book.Join(kOne, InRam(0), 1_B);
  desk.book.Join(kOne, InRam(1), 1_B);
  desk.Land(0);
  desk.AskLanded(kOne, 0, kBegin + kLater);
  CHECK(desk.landed.size() == 1);  // 1 is above 0
  desk.AskLanded(kOne, 1, kBegin + kLater);
  CHECK(desk.landed.size() == 1);
  CHECK(desk.book.EarliestDeadline() == kBegin + kLater);
  desk.Land(1);
  REQUIRE(desk.landed.size() == 2);
  CHECK(desk.landed[1].value().all_done_below == TransferId{3});
  CHECK_FALSE(desk.book.EarliestDeadline());
  desk.AskLanded(kOne, 2, kBegin + kLater);
  desk.book.Expire(kBegin + kLater);
  REQUIRE(desk.landed.size() == 3);
  CHECK(desk.landed[2].value().done_above.empty());
}

TEST_CASE("ResidencyBook: a waiting Acquire leases what lands, and each of two its own",
          "[scheduling]") {
  Desk desk;
  desk.Wait(kOne, 0);
  desk.Wait(kTwo, 0);
  CHECK_FALSE(desk.book.CheckQuota(kOne, 7_B));  // charged while it waits
  desk.Land(1);
  CHECK(desk.acquired.empty());
  desk.Land(0);
  REQUIRE(desk.acquired.size() == 2);
  CHECK(desk.held == 2);
  CHECK(std::get<SlotLease>(desk.acquired[0].value()[0]).slot == SlotIndex{7});
  CHECK_FALSE(desk.book.CheckQuota(kOne, 7_B));  // and once it leases
  CHECK(desk.book.CheckQuota(kOne, 6_B));
}

TEST_CASE("ResidencyBook: a waiting Acquire may name a key twice, and end before it lands",
          "[scheduling]") {
  Desk desk;
  const auto wait = [&desk](CallId call) {
    ResidencyBook::WaitingAcquire acquire;
    acquire.call = call;
    acquire.outcomes = {NotLeased{}, NotLeased{}};
    acquire.loading = {{.index = 0, .place = InRam(0), .charge = 4_B},
                       {.index = 1, .place = InRam(0), .charge = 4_B}};
    acquire.deadline = kBegin + kLater;
    acquire.done = [&desk](Result<Outcomes> result) { desk.acquired.push_back(std::move(result)); };
    desk.book.Wait(kOne, std::move(acquire));
  };
  wait(CallId{5});
  CHECK(desk.book.Cancel(kOne, CallId{5}).empty());
  REQUIRE(desk.acquired.size() == 1);
  CHECK(desk.acquired[0].error().code == ErrorCode::kCancelled);
  CHECK(desk.book.CheckQuota(kOne, 10_B));
  CHECK_FALSE(desk.book.IsWanted(InRam(0)));

  wait(CallId{6});
  desk.book.Expire(kBegin + kLater);
  REQUIRE(desk.acquired.size() == 2);
  for (const LeaseOutcome& outcome : desk.acquired[1].value()) {
    CHECK(std::get<NotLeased>(outcome).transfer == TransferId{1});
  }
}

TEST_CASE("ResidencyBook: an Acquire whose time is up has joined the transfer", "[scheduling]") {
  Desk desk;
  desk.Wait(kOne, 0);
  desk.book.Expire(kBegin);
  CHECK(desk.acquired.empty());
  desk.book.Expire(kBegin + kLater);
  REQUIRE(desk.acquired.size() == 1);
  const auto& refused = std::get<NotLeased>(desk.acquired[0].value()[0]);
  CHECK(refused.why == NotLeasedWhy::kLoading);
  CHECK(refused.transfer == TransferId{1});
  CHECK(desk.book.IsWanted(InRam(0)));
  CHECK_FALSE(desk.book.CheckQuota(kOne, 7_B));
  CHECK(desk.book.CheckQuota(kOne, 6_B));
  desk.Land(0);
  CHECK(desk.held == 0);
}

TEST_CASE("ResidencyBook: who waits for what cannot be had is told why", "[scheduling]") {
  Desk desk;
  desk.Wait(kOne, 0);
  desk.Fail(0);
  CHECK(std::get<NotLeased>(desk.acquired.at(0).value()[0]).why == NotLeasedWhy::kQuarantined);
  CHECK(desk.book.CheckQuota(kOne, 10_B));
}

TEST_CASE("ResidencyBook: the end of a session gives back its leases and cancels what waits",
          "[scheduling]") {
  Desk desk;
  desk.book.Lease(kOne, InRam(0), {}, 1_B);
  desk.book.Lease(kOne, InRam(0), {}, 1_B);
  desk.book.Join(kOne, InRam(1), 1_B);
  desk.Wait(kOne, 2);
  desk.AskLanded(kOne, 0, kBegin + kLater);
  CHECK(desk.book.HasListener(kModel));
  CHECK(desk.book.EndSession(kOne) == std::vector{InRam(0), InRam(0)});
  CHECK(desk.acquired.at(0).error().code == ErrorCode::kCancelled);
  CHECK(desk.landed.at(0).error().code == ErrorCode::kCancelled);
  CHECK_FALSE(desk.book.IsWanted(InRam(1)));
  CHECK_FALSE(desk.book.IsWanted(InRam(2)));
  CHECK_FALSE(desk.book.HasListener(kModel));
  CHECK_FALSE(desk.book.EarliestDeadline());
  CHECK(desk.book.Find(kOne) == nullptr);
  CHECK(desk.book.EndSession(kOne).empty());
}

TEST_CASE("ResidencyBook: when calls end, leases stay", "[scheduling]") {
  Desk desk;
  desk.book.Lease(kOne, InRam(0), {}, 1_B);
  desk.book.Join(kOne, InRam(1), 1_B);
  desk.Wait(kTwo, 1);
  desk.book.EndCalls(ModelId{9}, {ErrorCode::kUnavailable, Reason::kDraining, "another"});
  CHECK(desk.acquired.empty());
  desk.book.EndCalls(kModel, {ErrorCode::kUnavailable, Reason::kDraining, "stop"});
  CHECK(desk.acquired.at(0).error().reason == Reason::kDraining);
  REQUIRE(desk.heard->ended().size() == 1);
  CHECK(desk.heard->ended()[0].failed->reason == Reason::kDraining);
  CHECK_FALSE(desk.book.IsWanted(InRam(1)));
  CHECK(desk.book.LeasedOf(kModel).leases == 1);
}

TEST_CASE("ResidencyBook: calls that wait and transfers that are not asked about are bounded",
          "[scheduling]") {
  Desk desk;
  for (size_t i = 0; i < ResidencyBook::kMaxWaiting; ++i) {
    REQUIRE(desk.book.CheckWaiting(kOne, 0));
    desk.AskLanded(kOne, 0, kBegin + kLater);
  }
  CHECK(desk.book.CheckWaiting(kOne, 0).error().reason == Reason::kQuota);
  CHECK(desk.book.CheckWaiting(kTwo, 0));
  CHECK_FALSE(desk.book.CheckWaiting(kTwo, ResidencyBook::kMaxWaiting));

  desk.book.Join(kTwo, InRam(0), 1_B);  // stays under way
  for (size_t i = 1; i < ResidencyBook::kMaxTransfersTold; ++i) {
    REQUIRE(desk.book.CheckTransfers(kTwo));
    desk.book.Join(kTwo, InRam(1), 1_B);
    desk.Land(1);
  }
  CHECK(desk.book.CheckTransfers(kTwo).error().reason == Reason::kQuota);
  desk.Land(0);
  CHECK(desk.book.CheckTransfers(kTwo));
  for (size_t i = 0; i < ResidencyBook::kMaxTransfersTold; ++i) {
    desk.book.Join(kTwo, InRam(1), 1_B);
    desk.Fail(1);
  }
  CHECK_FALSE(desk.book.CheckTransfers(kTwo));
  desk.AskLanded(kTwo, 3 * ResidencyBook::kMaxTransfersTold, {});
  CHECK(desk.book.CheckTransfers(kTwo));
}

TEST_CASE("ResidencyBook: failures that nobody has asked about leave room for no more",
          "[scheduling]") {
  Desk desk;
  desk.book.Join(kTwo, InRam(0), 1_B);  // stays under way
  CHECK(desk.book.TransferRoom(kTwo) == ResidencyBook::kMaxTransfersTold - 1);
  for (size_t i = 1; i < ResidencyBook::kMaxTransfersTold; ++i) {
    desk.book.Join(kTwo, InRam(1), 1_B);
    desk.Fail(1);
  }
  desk.Land(0);  // numbers would begin anew, but for the failures
  CHECK(desk.book.TransferRoom(kTwo) == 1);
  desk.book.Join(kTwo, InRam(1), 1_B);
  CHECK(desk.book.CheckTransfers(kTwo).error().reason == Reason::kQuota);
  desk.AskLanded(kTwo, ResidencyBook::kMaxTransfersTold, {});
  CHECK(desk.landed.at(0)->failed.empty());
  CHECK(desk.book.TransferRoom(kTwo) == ResidencyBook::kMaxTransfersTold - 1);
}

TEST_CASE("ResidencyBook: what nobody wants any more is told once", "[scheduling]") {
  Desk desk;
  desk.book.Join(kOne, InRam(0), 1_B);
  desk.book.Join(kTwo, InRam(0), 1_B);
  desk.Wait(kOne, 1);
  desk.Wait(kTwo, 2);
  CHECK(desk.book.EndSession(kOne).empty());
  CHECK(desk.book.TakeUnwanted() == std::vector{InRam(1)});
  desk.Land(0);
  desk.Fail(2);
  CHECK(desk.book.TakeUnwanted().empty());  // these have ended
}

TEST_CASE("ResidencyBook: the earliest deadline is that of a call that still waits",
          "[scheduling]") {
  Desk desk;
  desk.Wait(kOne, 0, kBegin + 2 * kLater);
  desk.Wait(kTwo, 1, kBegin + kLater);
  desk.AskLanded(kTwo, 0, kBegin + 3 * kLater);
  CHECK(desk.book.EarliestDeadline() == kBegin + kLater);
  desk.Land(1);
  CHECK(desk.book.EarliestDeadline() == kBegin + 2 * kLater);
  desk.book.Expire(kBegin + 2 * kLater);
  CHECK(desk.acquired.size() == 2);
  CHECK(desk.book.EarliestDeadline() == kBegin + 3 * kLater);
  desk.book.EndSession(kTwo);
  CHECK_FALSE(desk.book.EarliestDeadline());
}

TEST_CASE("ResidencyBook: when a model's calls end, what they had leased is given back",
          "[scheduling]") {
  Desk desk;
  ResidencyBook::WaitingAcquire call;
  call.outcomes = {desk.book.Lease(kOne, InRam(0), {}, 1_B), NotLeased{}};
  call.loading.push_back({.index = 1, .place = InRam(1), .charge = 1_B});
  call.done = [&](Result<Outcomes> result) { desk.acquired.push_back(std::move(result)); };
  desk.book.Wait(kOne, std::move(call));
  CHECK(desk.book.EndCalls(kModel, {ErrorCode::kUnavailable, Reason::kDraining, "stop"}) ==
        std::vector{InRam(0)});
  CHECK(desk.acquired.at(0).error().reason == Reason::kDraining);
  CHECK(desk.book.LeasedOf(kModel).leases == 0);
  CHECK(desk.book.CheckQuota(kOne, 10_B));
}

TEST_CASE("ResidencyBook: leases on keys end in the pool that is named, or in any",
          "[scheduling]") {
  Desk desk;
  const Place on_device{InRam(0).key, PoolId{1}};
  desk.book.Lease(kOne, InRam(0), {}, 1_B);
  desk.book.Lease(kOne, on_device, {}, 1_B);
  desk.book.Lease(kOne, InRam(1), {}, 1_B);
  const auto end = [&](std::optional<PoolId> pool) {
    return desk.book.EndLeasesOn(
        {.session = kOne, .leases = {}, .keys = {InRam(0).key}, .pool = pool});
  };
  CHECK(end(PoolId{1}).places == std::vector{on_device});
  CHECK(end(std::nullopt).places == std::vector{InRam(0)});
  CHECK(end(std::nullopt).named == 0);
  CHECK(desk.book.LeasedOf(kModel).leases == 1);
  CHECK(desk.book.CheckQuota(kOne, 9_B));
}

TEST_CASE("ResidencyBook: when a pool is gone, its leases end for all sessions, and no others",
          "[scheduling]") {
  Desk desk;
  const Place there{InRam(0).key, PoolId{1}};
  const LeaseId lost = desk.book.Lease(kOne, there, {}, 3_B).lease;
  const LeaseId stays = desk.book.Lease(kOne, InRam(0), {}, 4_B).lease;
  desk.book.Lease(kTwo, there, {}, 5_B);
  desk.Wait(kTwo, 2);
  const Error why{ErrorCode::kUnavailable, Reason::kDeviceLost, "gpu0 is lost"};
  const ResidencyBook::Lost ended = desk.book.EndLeasesIn(PoolId{1}, why);
  CHECK(ended.places == std::vector{there, there});
  CHECK(ended.leased.leases == 2);
  CHECK(ended.leased.sessions == 2);
  REQUIRE(desk.heard->lost().size() == 1);  // the other session does not listen
  CHECK(desk.heard->lost()[0].leases == std::vector{lost});
  CHECK(desk.heard->lost()[0].why.message == "gpu0 is lost");
  CHECK(desk.book.CheckQuota(kOne, 6_B));
  CHECK_FALSE(desk.book.CheckQuota(kOne, 7_B));
  CHECK_FALSE(desk.book.EndLease(kOne, lost));
  CHECK(desk.book.EndLease(kOne, stays) == InRam(0));
  CHECK(desk.acquired.empty());  // it waits for RAM
  CHECK(desk.book.IsWanted(InRam(2)));
  CHECK(desk.book.EndLeasesIn(PoolId{1}, why).places.empty());
  CHECK(desk.heard->lost().size() == 1);
}

TEST_CASE("ResidencyBook: Acquires that wait for a pool that is gone fail and leave no lease",
          "[scheduling]") {
  Desk desk;
  const Place there{InRam(0).key, PoolId{1}};
  const auto wait = [&](Outcomes outcomes, const Place& place) {
    ResidencyBook::WaitingAcquire call;
    call.outcomes = std::move(outcomes);
    call.outcomes.emplace_back(NotLeased{});
    call.loading.push_back({.index = 1, .place = place, .charge = 1_B});
    call.deadline = kBegin + kLater;
    call.done = [&](Result<Outcomes> result) { desk.acquired.push_back(std::move(result)); };
    desk.book.Wait(kOne, std::move(call));
  };
  wait({desk.book.Lease(kOne, InRam(1), {}, 1_B)}, there);
  wait({desk.book.Lease(kOne, there, {}, 1_B)}, InRam(2));
  wait({desk.book.Lease(kOne, InRam(3), {}, 1_B)}, InRam(4));
  const Error why{ErrorCode::kUnavailable, Reason::kDeviceLost, "gpu0 is lost"};
  CHECK(desk.book.EndLeasesIn(PoolId{1}, why).places == std::vector{InRam(1), there});
  REQUIRE(desk.acquired.size() == 2);
  for (const Result<Outcomes>& answer : desk.acquired) {
    CHECK(answer.error().reason == Reason::kDeviceLost);
  }
  CHECK(desk.heard->lost().empty());  // the session never knew of them
  CHECK(desk.book.TakeUnwanted() == std::vector{there, InRam(2)});
  CHECK(desk.book.LeasedOf(kModel).leases == 1);
  CHECK(desk.book.CheckQuota(kOne, 8_B));
}

TEST_CASE("ResidencyBook: victims are told to listeners of their model alone", "[scheduling]") {
  Desk desk;
  const auto victims = [](uint32_t generation) {
    return std::make_shared<const std::vector<Victim>>(
        1, Victim{.key = InRam(0).key, .generation = generation});
  };
  desk.book.TellVictims(ModelId{9}, victims(1));
  CHECK(desk.heard->victims().empty());
  desk.book.TellVictims(kModel, victims(3));
  REQUIRE(desk.heard->victims().size() == 1);
  CHECK(desk.heard->victims()[0].generation == 3);
}

}  // namespace moetier
