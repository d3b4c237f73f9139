// Calls of Residency whose client has gone or has lost the reply.

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/residency_rpc_bench.h"

namespace moetier {
namespace {

using Bench = ResidencyRpcBench;

}  // namespace

TEST_CASE("Residency: leases that a cancelled call would bring are given back", "[rpc]") {
  Bench bench;
  bench.core().IgnoreCancels();
  bench.core().answers.leases = std::vector<LeaseOutcome>{
      SlotLease{.lease = LeaseId{7}}, NotLeased{}, SlotLease{.lease = LeaseId{9}}};
  bench.core().HoldCalls();
  auto request = bench.Ask<v1::AcquireRequest>();
  AddKey(*request.mutable_keys(), 3, 1);
  request.set_wait_us(50'000'000);
  grpc::ClientContext context;
  std::thread caller([&] {
    v1::AcquireReply reply;
    CHECK(bench.stub->Acquire(&context, request, &reply).error_code() ==
          grpc::StatusCode::CANCELLED);
  });
  REQUIRE(bench.core().WaitForHeld(1));
  context.TryCancel();
  caller.join();
  REQUIRE(bench.core().WaitForCalls(2));
  CHECK(bench.calls().back() == "cancel");
  bench.core().AnswerHeld();
  REQUIRE(bench.core().WaitForCalls(3));
  CHECK(bench.calls().back() == "release 7 9");
}

TEST_CASE("Residency: a call that is cancelled, or out of time, waits no more in the core",
          "[rpc]") {
  Bench bench;
  bench.core().HoldCalls();
  const auto check_cancelled = [&](const std::string& what, const auto& call) {
    INFO(what);
    const size_t before = bench.calls().size();
    grpc::ClientContext context;
    std::thread caller([&] { CHECK(call(context).error_code() == grpc::StatusCode::CANCELLED); });
    REQUIRE(bench.core().WaitForHeld(1));
    context.TryCancel();
    caller.join();
    REQUIRE(bench.core().WaitForCalls(before + 2));
    CHECK(bench.calls().back() == "cancel");
    bench.core().AnswerHeld();  // none: a second answer would end the process
  };
  check_cancelled("Acquire", [&](grpc::ClientContext& context) {
    auto request = bench.Ask<v1::AcquireRequest>();
    AddKey(*request.mutable_keys(), 3, 1);
    request.set_wait_us(50'000'000);
    v1::AcquireReply reply;
    return bench.stub->Acquire(&context, request, &reply);
  });
  check_cancelled("Landed", [&](grpc::ClientContext& context) {
    auto request = bench.Ask<v1::LandedRequest>();
    request.set_wait_us(50'000'000);
    v1::LandedReply reply;
    return bench.stub->Landed(&context, request, &reply);
  });
  auto place = bench.Ask<v1::PoolRequest>();
  place.set_pool(1);
  check_cancelled("Drain", [&](grpc::ClientContext& context) {
    v1::DrainReply reply;
    return bench.stub->Drain(&context, place, &reply);
  });
  const size_t before = bench.calls().size();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(30));
  v1::FenceReply reply;
  CHECK(bench.stub->Fence(&context, place, &reply).error_code() ==
        grpc::StatusCode::DEADLINE_EXCEEDED);
  REQUIRE(bench.core().WaitForCalls(before + 2));
  CHECK(bench.calls().back() == "cancel");
}

TEST_CASE("Residency: leases are released by their keys, but for those that are kept", "[rpc]") {
  Bench bench;
  bench.core().answers.released = 1u;
  auto request = bench.Ask<v1::ReleaseRequest>();
  const auto released = [&] {
    grpc::ClientContext context;
    v1::ReleaseReply reply;
    const grpc::Status status = bench.stub->Release(&context, request, &reply);
    return status.ok() ? std::to_string(reply.released()) : Outcome(status);
  };
  request.mutable_pool()->set_pool(1);
  CHECK(released() == "BAD_SHAPE at pool");
  request.clear_pool();
  request.add_kept(7);
  CHECK(released() == "BAD_SHAPE at kept");
  AddKey(*request.mutable_keys(), 3, 1);
  AddKey(*request.mutable_keys(), 5, 0);
  CHECK(released() == "1");
  request.mutable_pool()->set_pool(1);
  request.add_leases(9);
  CHECK(released() == "1");
  CHECK(bench.calls() == std::vector<std::string>{"release keys 3.1 5.0 kept 7",
                                                  "release 9 keys 3.1 5.0 pool 1 kept 7"});
  request.mutable_pool()->set_pool(2);
  CHECK(released() == "BAD_POOL at pool");
  AddKey(*request.mutable_keys(), 3, 1);
  CHECK(released() == "DUPLICATE_EXPERT at keys");
  request.mutable_keys(2)->set_layer(2);
  CHECK(released() == "UNKNOWN_LAYER at keys");
  request.mutable_keys()->RemoveLast();
  for (uint64_t lease = 0; lease < 4094; ++lease) request.add_leases(lease);
  CHECK(released() == "TOO_LARGE at leases");  // with the keys 4097
  for (uint64_t lease = 0; lease < 4096; ++lease) request.add_kept(lease);
  CHECK(released() == "TOO_LARGE at kept");
}

}  // namespace moetier
