#include <catch2/catch.hpp>
#include <chrono>
#include <limits>
#include <thread>

#include "daemon/rpc/status_map.h"
#include "tests/support/rpc_fixture.h"

namespace moetier {

TEST_CASE("Compute: answers like Decode, and a fault is the call's status", "[rpc]") {
  RpcFixture fixture;
  AttachedClient client(fixture.Connect());
  v1::LayerRequest request = SmallRequest(3);
  *request.mutable_session() = client.ref();
  v1::LayerReply reply;
  {
    grpc::ClientContext context;
    REQUIRE(client.stub().Compute(&context, request, &reply).ok());
  }
  CHECK(reply.request_id() == 3);
  CHECK(Floats(reply.ok().output()) == std::vector<float>{1.5f, 3, 4.5f, 6});
  request.set_weights(1, std::numeric_limits<float>::infinity());
  {
    grpc::ClientContext context;
    const grpc::Status status = client.stub().Compute(&context, request, &reply);
    CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
    const std::optional<v1::Fault> fault = FaultOf(status);
    REQUIRE(fault.has_value());
    CHECK(fault->reason() == v1::REASON_NOT_FINITE);
    CHECK(fault->field() == "weights");
    CHECK(fault->row() == 0);
  }
  request.mutable_session()->clear_token();
  grpc::ClientContext context;
  CHECK(ReasonOf(client.stub().Compute(&context, request, &reply)) == v1::REASON_UNKNOWN_SESSION);
}

TEST_CASE("Compute: the call's own gRPC deadline bounds its wait, and its cancel cancels it",
          "[rpc]") {
  RpcFixture fixture;
  fixture.core.HoldCalls();
  AttachedClient client(fixture.Connect());
  v1::LayerRequest request = SmallRequest(3);
  *request.mutable_session() = client.ref();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  grpc::Status status;
  std::thread caller([&] {
    v1::LayerReply reply;
    status = client.stub().Compute(&context, request, &reply);
  });
  REQUIRE(fixture.core.WaitForHeld(1));
  const LayerCall call = fixture.core.HeldCall(0);
  REQUIRE(call.deadline.has_value());
  CHECK(*call.deadline <= call.received + std::chrono::seconds(31));
  context.TryCancel();
  caller.join();
  CHECK(status.error_code() == grpc::StatusCode::CANCELLED);
  CHECK(fixture.core.WaitForCancel(0));
  fixture.core.StartHeld(0);
}

}  // namespace moetier
