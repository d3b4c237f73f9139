#include "daemon/rpc/session_event_queue.h"

#include <catch2/catch.hpp>
#include <memory>
#include <utility>
#include <vector>

namespace moetier {
namespace {

Victim VictimOf(uint16_t expert) {
  return {
      .key = {ModelId{1}, LayerIndex{3}, ExpertIndex{expert}}, .pool = PoolId{1}, .generation = 7};
}

Victims Batch(std::vector<Victim> victims) {
  return std::make_shared<const std::vector<Victim>>(std::move(victims));
}
Victims One(uint16_t expert) { return Batch({VictimOf(expert)}); }

EndedTransfer Ended(uint64_t transfer) {
  return {.transfer = TransferId{transfer},
          .key = {ModelId{1}, LayerIndex{3}, ExpertIndex{2}},
          .failed = std::nullopt};
}

v1::SessionEvent Draining(const std::string& message) {
  v1::SessionEvent event;
  event.mutable_draining()->set_message(message);
  return event;
}

}  // namespace

TEST_CASE("SessionEventQueue: victims leave together, and never pass another event", "[rpc]") {
  SessionEventQueue queue;
  REQUIRE(queue.Push(One(1)));
  REQUIRE(queue.Push(One(2)));
  REQUIRE(queue.Push(Ended(5)));
  REQUIRE(queue.Push(One(2)));
  REQUIRE(queue.Push(Draining("stop")));
  queue.PushFirst(Draining("first"));
  CHECK(ToProto(queue.Take()).draining().message() == "first");
  const v1::SessionEvent both = ToProto(queue.Take());
  REQUIRE(both.victims().victims_size() == 2);
  CHECK(both.victims().victims(1).key().layer() == 3);
  CHECK(both.victims().victims(1).key().expert() == 2);
  CHECK(both.victims().victims(1).pool() == 1);
  CHECK(both.victims().victims(1).generation() == 7);
  const v1::SessionEvent ended = ToProto(queue.Take());
  CHECK(ended.transfer_done().transfer() == 5);
  CHECK_FALSE(ended.transfer_done().has_fault());
  CHECK(ToProto(queue.Take()).victims().victims_size() == 1);
  CHECK(ToProto(queue.Take()).draining().message() == "stop");
  CHECK(queue.empty());
}

TEST_CASE("SessionEventQueue: a transfer that failed has its fault", "[rpc]") {
  SessionEventQueue queue;
  EndedTransfer failed = Ended(5);
  failed.failed = Error{ErrorCode::kDataLoss, Reason::kReadError, "EIO"};
  REQUIRE(queue.Push(failed));
  CHECK(ToProto(queue.Take()).transfer_done().fault().reason() == v1::REASON_READ_ERROR);
}

TEST_CASE("SessionEventQueue: lost leases come with their loss, in their place", "[rpc]") {
  SessionEventQueue queue;
  REQUIRE(queue.Push(One(1)));
  REQUIRE(queue.Push(LostLeases{.leases = {LeaseId{4}, LeaseId{9}},
                                .pool = PoolId{1},
                                .why = {ErrorCode::kUnavailable, Reason::kDeviceLost, "gone"}}));
  REQUIRE(queue.Push(One(2)));
  CHECK(ToProto(queue.Take()).victims().victims_size() == 1);
  const v1::SessionEvent event = ToProto(queue.Take());
  REQUIRE(event.leases_lost().leases_size() == 2);
  CHECK(event.leases_lost().leases(1) == 9);
  CHECK(event.leases_lost().pool() == 1);
  CHECK(event.leases_lost().fault().reason() == v1::REASON_DEVICE_LOST);
  CHECK(event.leases_lost().fault().message() == "gone");
  CHECK(ToProto(queue.Take()).victims().victims_size() == 1);
  CHECK(queue.empty());
}

TEST_CASE("SessionEventQueue: a burst waits whole; one more than the bound is refused", "[rpc]") {
  SessionEventQueue queue;
  for (size_t i = 0; i < SessionEventQueue::kMaxNotices / 2; ++i) {
    REQUIRE(queue.Push(Ended(i)));
    REQUIRE(queue.Push(One(static_cast<uint16_t>(i))));
  }
  CHECK(queue.Push(One(0)).error().reason == Reason::kQuota);
  CHECK(queue.Push(Ended(1)).error().reason == Reason::kQuota);
  // The other events have a bound of their own.
  for (size_t i = 0; i < SessionEventQueue::kMaxEvents; ++i) REQUIRE(queue.Push(Draining("")));
  CHECK(queue.Push(Draining("")).error().message ==
        "256 events, 32768 victims and ended transfers wait for a client that does not read its "
        "Attach stream; at most 256 and 32768 may");
  (void)queue.Take();
  CHECK(queue.Push(One(0)).has_value());
  queue.Clear();
  CHECK(queue.empty());
  CHECK(queue.Push(Draining("")).has_value());
}

TEST_CASE("SessionEventQueue: an event takes a bounded number of victims", "[rpc]") {
  SessionEventQueue queue;
  std::vector<Victim> batch;
  for (uint16_t i = 0; i < 1025; ++i) batch.push_back(VictimOf(i));
  REQUIRE(queue.Push(Batch(batch)));
  REQUIRE(queue.Push(One(9)));
  CHECK(ToProto(queue.Take()).victims().victims_size() == 1024);
  const v1::SessionEvent rest = ToProto(queue.Take());
  REQUIRE(rest.victims().victims_size() == 2);
  CHECK(rest.victims().victims(0).key().expert() == 1024);
  CHECK(rest.victims().victims(1).key().expert() == 9);
  CHECK(queue.empty());
}

TEST_CASE("SessionEventQueue: a batch that does not fit whole is refused", "[rpc]") {
  SessionEventQueue queue;
  const Victims most = Batch(std::vector<Victim>(SessionEventQueue::kMaxNotices, VictimOf(1)));
  REQUIRE(queue.Push(most));
  (void)queue.Take();
  CHECK(queue.Push(Batch(std::vector<Victim>(1025, VictimOf(1)))).error().reason == Reason::kQuota);
  CHECK(queue.Push(Batch(std::vector<Victim>(1024, VictimOf(1)))).has_value());
}

}  // namespace moetier
