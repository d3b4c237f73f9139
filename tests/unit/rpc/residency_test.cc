#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <thread>

#include "tests/support/residency_rpc_bench.h"

namespace moetier {
namespace {

using Bench = ResidencyRpcBench;

std::string Acquire(Bench& bench, const v1::AcquireRequest& request) {
  grpc::ClientContext context;
  v1::AcquireReply reply;
  return Outcome(bench.stub->Acquire(&context, request, &reply));
}

std::string Fill(Bench& bench, const v1::TransferRequest& request) {
  grpc::ClientContext context;
  v1::TransferReply reply;
  return Outcome(bench.stub->Fill(&context, request, &reply));
}

}  // namespace

TEST_CASE("Residency: Acquire gives one outcome a key, in order", "[rpc]") {
  Bench bench;
  bench.core().answers.leases = std::vector<LeaseOutcome>{
      SlotLease{.lease = LeaseId{7},
                .pool = PoolId{1},
                .slot = SlotIndex{2},
                .generation = 3,
                .offset = 8192,
                .bytes = 4096},
      NotLeased{.why = NotLeasedWhy::kLoading, .transfer = TransferId{5}},
      NotLeased{.why = NotLeasedWhy::kAbsent}, NotLeased{.why = NotLeasedWhy::kNoRoom},
      NotLeased{.why = NotLeasedWhy::kQuarantined}};
  auto request = bench.Ask<v1::AcquireRequest>();
  AddKey(*request.mutable_keys(), 3, 1);
  AddKey(*request.mutable_keys(), 5, 0);  // without a kernel: it can be held all the same
  request.mutable_pool()->set_pool(1);
  request.set_wait_us(500);
  grpc::ClientContext context;
  v1::AcquireReply reply;
  REQUIRE(bench.stub->Acquire(&context, request, &reply).ok());
  CHECK(bench.calls() == std::vector<std::string>{"acquire 3.1 5.0 pool 1 wait 500 us"});
  REQUIRE(reply.slots_size() == 5);
  const v1::SlotLease& lease = reply.slots(0).lease();
  CHECK(lease.lease() == 7);
  CHECK(lease.pool() == 1);
  CHECK(lease.slot() == 2);
  CHECK(lease.generation() == 3);
  CHECK(lease.offset() == 8192);
  CHECK(lease.bytes() == 4096);
  CHECK(reply.slots(1).refused().why() == v1::NotAcquired::WHY_LOADING);
  CHECK(reply.slots(1).refused().transfer() == 5);
  CHECK(reply.slots(2).refused().why() == v1::NotAcquired::WHY_ABSENT);
  CHECK(reply.slots(3).refused().why() == v1::NotAcquired::WHY_NO_ROOM);
  CHECK(reply.slots(4).refused().why() == v1::NotAcquired::WHY_QUARANTINED);
}

TEST_CASE("Residency: what the core refuses comes back with its reason", "[rpc]") {
  Bench bench;
  bench.core().answers.leases = Error{ErrorCode::kExhausted, Reason::kQuota, "above max_leased"};
  auto request = bench.Ask<v1::AcquireRequest>();
  AddKey(*request.mutable_keys(), 3, 1);
  CHECK(Acquire(bench, request) == "QUOTA");
}

TEST_CASE("Residency: bad keys, pools, leases and sessions are refused by name, unasked", "[rpc]") {
  Bench bench;
  auto request = bench.Ask<v1::AcquireRequest>();
  CHECK(Acquire(bench, request) == "BAD_SHAPE at keys");
  AddKey(*request.mutable_keys(), 2, 0);
  CHECK(Acquire(bench, request) == "UNKNOWN_LAYER at keys");
  request.mutable_keys(0)->set_layer(std::numeric_limits<uint32_t>::max());
  CHECK(Acquire(bench, request) == "UNKNOWN_LAYER at keys");
  request.mutable_keys(0)->set_layer(65536 + 3);  // 3 in sixteen bits
  CHECK(Acquire(bench, request) == "UNKNOWN_LAYER at keys");
  request.mutable_keys(0)->set_layer(3);
  for (const uint32_t expert : {4u, 65536u, std::numeric_limits<uint32_t>::max()}) {
    request.mutable_keys(0)->set_expert(expert);
    CHECK(Acquire(bench, request) == "BAD_EXPERT_ID at keys");
  }
  request.mutable_keys(0)->set_expert(3);
  AddKey(*request.mutable_keys(), 1, 3);
  AddKey(*request.mutable_keys(), 3, 3);
  CHECK(Acquire(bench, request) == "DUPLICATE_EXPERT at keys");
  request.mutable_keys()->RemoveLast();
  for (const uint32_t pool : {2u, 256u, std::numeric_limits<uint32_t>::max()}) {
    request.mutable_pool()->set_pool(pool);
    CHECK(Acquire(bench, request) == "BAD_POOL at pool");
  }
  request.clear_pool();
  request.mutable_session()->set_token(std::string(16, 'x'));
  CHECK(Acquire(bench, request) == "UNKNOWN_SESSION at session");
  *request.mutable_session() = bench.client.ref();
  for (int i = 0; i < 4095; ++i) AddKey(*request.mutable_keys(), 3, 3);
  CHECK(Acquire(bench, request) == "TOO_LARGE at keys");

  auto release = bench.Ask<v1::ReleaseRequest>();
  const auto released = [&] {
    grpc::ClientContext context;
    v1::ReleaseReply reply;
    return Outcome(bench.stub->Release(&context, release, &reply));
  };
  CHECK(released() == "BAD_SHAPE at leases");
  for (uint64_t lease = 0; lease < 4097; ++lease) release.add_leases(lease);
  CHECK(released() == "TOO_LARGE at leases");

  auto place = bench.Ask<v1::PoolRequest>();
  place.set_pool(2);
  {
    grpc::ClientContext context;
    v1::FenceReply reply;
    CHECK(Outcome(bench.stub->Fence(&context, place, &reply)) == "BAD_POOL at pool");
  }
  grpc::ClientContext context;
  v1::DrainReply reply;
  CHECK(Outcome(bench.stub->Drain(&context, place, &reply)) == "BAD_POOL at pool");
  CHECK(bench.calls().empty());
}

TEST_CASE("Residency: Fill takes pools of RAM, Push those of a device", "[rpc]") {
  Bench bench;
  bench.core().answers.transfers = std::vector<TransferOutcome>{
      InPlace{.generation = 9}, TransferId{4},
      Error{ErrorCode::kDataLoss, Reason::kQuarantined, "blk.3 expert 2 is quarantined"}};
  auto request = bench.Ask<v1::TransferRequest>();
  AddKey(*request.mutable_keys(), 3, 0);
  AddKey(*request.mutable_keys(), 3, 1);
  AddKey(*request.mutable_keys(), 3, 2);
  {
    grpc::ClientContext context;
    v1::TransferReply reply;
    REQUIRE(bench.stub->Fill(&context, request, &reply).ok());
    REQUIRE(reply.transfers_size() == 3);
    CHECK(reply.transfers(0).landed_generation() == 9);
    CHECK(reply.transfers(1).transfer() == 4);
    CHECK(reply.transfers(2).fault().reason() == v1::REASON_QUARANTINED);
    CHECK(reply.transfers(2).fault().code() == 15);
  }
  const auto push = [&] {
    grpc::ClientContext context;
    v1::TransferReply reply;
    return Outcome(bench.stub->Push(&context, request, &reply));
  };
  CHECK(push() == "BAD_POOL at pool");
  request.set_pool(1);
  CHECK(push() == "OK");
  CHECK(Fill(bench, request) == "BAD_POOL at pool");
  request.set_pool(2);
  CHECK(Fill(bench, request) == "BAD_POOL at pool");
  CHECK(push() == "BAD_POOL at pool");
  CHECK(bench.calls() ==
        std::vector<std::string>{"transfer 3.0 3.1 3.2 to 0", "transfer 3.0 3.1 3.2 to 1"});
}

TEST_CASE("Residency: Release, Landed, Fence and Drain reach the core and bring its answer",
          "[rpc]") {
  Bench bench;
  FakeResidency::Answers& answers = bench.core().answers;
  answers.released = 2u;
  answers.landed = LandedTransfers{
      .all_done_below = TransferId{6},
      .done_above = {TransferId{8}},
      .failed = {{.transfer = TransferId{8},
                  .key = {},
                  .failed = Error{ErrorCode::kDataLoss, Reason::kReadError, "EIO"}}}};
  {
    auto request = bench.Ask<v1::ReleaseRequest>();
    request.add_leases(7);
    request.add_leases(9);
    grpc::ClientContext context;
    v1::ReleaseReply reply;
    REQUIRE(bench.stub->Release(&context, request, &reply).ok());
    CHECK(reply.released() == 2);
  }
  {
    auto request = bench.Ask<v1::LandedRequest>();
    request.set_after(5);
    grpc::ClientContext context;
    v1::LandedReply reply;
    REQUIRE(bench.stub->Landed(&context, request, &reply).ok());
    CHECK(reply.all_done_below() == 6);
    REQUIRE(reply.done_above_size() == 1);
    CHECK(reply.done_above(0) == 8);
    REQUIRE(reply.failed_size() == 1);
    CHECK(reply.failed(0).transfer() == 8);
    CHECK(reply.failed(0).fault().reason() == v1::REASON_READ_ERROR);
  }
  auto place = bench.Ask<v1::PoolRequest>();
  place.set_pool(1);
  {
    grpc::ClientContext context;
    v1::FenceReply reply;
    CHECK(bench.stub->Fence(&context, place, &reply).ok());
  }
  answers.pool = Error{ErrorCode::kUnavailable, Reason::kDraining, "stopping"};
  grpc::ClientContext context;
  v1::DrainReply reply;
  CHECK(Outcome(bench.stub->Drain(&context, place, &reply)) == "DRAINING");
  CHECK(bench.calls() ==
        std::vector<std::string>{"release 7 9", "landed after 5 wait 0 us", "fence 1", "drain 1"});
}

TEST_CASE("Residency: a wait ends after a minute, or with the call's own deadline", "[rpc]") {
  Bench bench;
  auto request = bench.Ask<v1::LandedRequest>();
  request.set_wait_us(std::numeric_limits<uint32_t>::max());
  v1::LandedReply reply;
  {
    grpc::ClientContext context;
    REQUIRE(bench.stub->Landed(&context, request, &reply).ok());
  }
  CHECK(bench.calls().back() == "landed after 0 wait 60000000 us");
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  REQUIRE(bench.stub->Landed(&context, request, &reply).ok());
  const uint64_t wait =
      std::stoull(bench.calls().back().substr(std::strlen("landed after 0 wait ")));
  CHECK(wait <= 21'000'000);  // gRPC rounds a deadline up on the wire
  CHECK(wait > 10'000'000);
}

TEST_CASE("Residency: the session's end answers what waits, and later calls are refused", "[rpc]") {
  Bench bench;
  bench.core().HoldCalls();
  auto request = bench.Ask<v1::LandedRequest>();
  request.set_wait_us(50'000'000);
  std::thread caller([&] {
    grpc::ClientContext context;
    v1::LandedReply reply;
    CHECK(Outcome(bench.stub->Landed(&context, request, &reply)) == "UNKNOWN_SESSION");
  });
  REQUIRE(bench.core().WaitForHeld(1));
  bench.client.Detach();
  caller.join();
  grpc::ClientContext context;
  v1::LandedReply reply;
  CHECK(Outcome(bench.stub->Landed(&context, request, &reply)) == "UNKNOWN_SESSION at session");
}

TEST_CASE("Residency: a stop answers what waits with DRAINING", "[rpc]") {
  Bench bench;
  bench.core().HoldCalls();
  auto request = bench.Ask<v1::LandedRequest>();
  request.set_wait_us(50'000'000);
  std::thread caller([&] {
    grpc::ClientContext context;
    v1::LandedReply reply;
    CHECK(Outcome(bench.stub->Landed(&context, request, &reply)) == "DRAINING");
  });
  REQUIRE(bench.core().WaitForHeld(1));
  CHECK(bench.fixture.server->Stop(std::chrono::seconds(10)));
  caller.join();
}

TEST_CASE("Route: checks as for a layer message without rows, and tells each expert's place",
          "[rpc]") {
  Bench bench;
  bench.core().answers.routed = std::vector<RoutedExpert>{
      {.expert = ExpertIndex{2}, .residence = Residence::kResident, .pool = PoolId{1}, .lane = 0},
      {.expert = ExpertIndex{0}, .residence = Residence::kAbsent},
      {.expert = ExpertIndex{1}, .residence = Residence::kLoading},
      {.expert = ExpertIndex{3}, .residence = Residence::kQuarantined}};
  auto request = bench.Ask<v1::RouteRequest>();
  request.set_layer(1);
  request.set_rows(2);
  request.set_top_k(2);
  for (const uint32_t expert : {2u, 0u, 1u, 2u}) request.add_experts(expert);
  v1::RouteReply reply;
  const auto route = [&] {
    grpc::ClientContext context;
    return Outcome(bench.client.stub().Route(&context, request, &reply));
  };
  REQUIRE(route() == "OK");
  CHECK(bench.calls() == std::vector<std::string>{"route blk.1 rows 2: 2 0 1 2"});
  REQUIRE(reply.experts_size() == 4);
  CHECK(reply.experts(0).expert() == 2);
  CHECK(reply.experts(0).residence() == v1::RESIDENCE_RESIDENT);
  CHECK(reply.experts(0).pool() == 1);
  CHECK(reply.experts(1).residence() == v1::RESIDENCE_ABSENT);
  CHECK(reply.experts(2).residence() == v1::RESIDENCE_LOADING);
  CHECK(reply.experts(3).residence() == v1::RESIDENCE_QUARANTINED);

  request.set_experts(3, 1);
  CHECK(route() == "DUPLICATE_EXPERT at experts");
  request.set_experts(3, std::numeric_limits<uint32_t>::max());
  CHECK(route() == "BAD_EXPERT_ID at experts");
  request.add_experts(3);
  CHECK(route() == "BAD_SHAPE at experts");
  request.set_rows(std::numeric_limits<uint32_t>::max());
  CHECK(route() == "BAD_ROWS at rows");
  request.set_rows(2);
  request.set_top_k(0);
  CHECK(route() == "BAD_TOP_K at top_k");
  request.set_top_k(9);
  CHECK(route() == "BAD_TOP_K at top_k");
  request.set_top_k(2);
  request.mutable_experts()->RemoveLast();
  request.set_experts(3, 3);
  request.set_layer(5);  // has no kernel here, and yet slots to lease
  CHECK(route() == "OK");
  CHECK(bench.calls().back() == "route blk.5 rows 2: 2 0 1 3");
  request.set_layer(2);
  CHECK(route() == "UNKNOWN_LAYER at layer");
  request.mutable_session()->set_session(99);
  CHECK(route() == "UNKNOWN_SESSION at session");
  CHECK(bench.calls().size() == 2);
}

}  // namespace moetier
