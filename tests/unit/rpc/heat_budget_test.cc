#include <catch2/catch.hpp>

#include "daemon/rpc/status_map.h"
#include "tests/support/rpc_fixture.h"

namespace moetier {
namespace {

ModelHeat SomeHeat() {
  return {.fingerprint = 7,
          .layers = {{LayerIndex{3}, {0, 1.5f, 2}}, {LayerIndex{9}, {0.25f, 0, 0}}}};
}

grpc::Status SetBudget(const std::shared_ptr<grpc::Channel>& channel,
                       const v1::SetBudgetRequest& request, v1::SetBudgetReply& reply) {
  grpc::ClientContext context;
  return v1::Operator::NewStub(channel)->SetBudget(&context, request, &reply);
}

}  // namespace

TEST_CASE("Operator: the heat that was set is the heat that is got", "[rpc]") {
  RpcFixture fixture;
  const auto stub = v1::Operator::NewStub(fixture.Connect());
  REQUIRE(fixture.core.SetHeat(ModelId{1}, SomeHeat()).has_value());
  v1::GetHeatRequest request;
  request.set_model("small");
  v1::Heat heat;
  {
    grpc::ClientContext context;
    REQUIRE(stub->GetHeat(&context, request, &heat).ok());
  }
  CHECK(heat.model() == "small");
  CHECK(heat.fingerprint() == 7);
  REQUIRE(heat.layers_size() == 2);
  CHECK(heat.layers(1).layer() == 9);
  CHECK(heat.layers(0).heat(1) == 1.5f);
  heat.mutable_layers(0)->set_heat(2, 44);
  {
    grpc::ClientContext context;
    v1::SetHeatReply reply;
    REQUIRE(stub->SetHeat(&context, heat, &reply).ok());
  }
  CHECK(fixture.core.GetHeat(ModelId{1}).value().layers[0].heat[2] == 44);
}

TEST_CASE("Operator: heat of no model, or of a layer that none has, is refused", "[rpc]") {
  RpcFixture fixture;
  const auto stub = v1::Operator::NewStub(fixture.Connect());
  v1::Heat heat;
  heat.set_model("absent");
  v1::SetHeatReply reply;
  {
    grpc::ClientContext context;
    CHECK(FaultOf(stub->SetHeat(&context, heat, &reply)).value().reason() ==
          v1::REASON_UNKNOWN_MODEL);
  }
  heat.set_model("small");
  heat.add_layers()->set_layer(70'000);
  grpc::ClientContext context;
  CHECK(FaultOf(stub->SetHeat(&context, heat, &reply)).value().reason() ==
        v1::REASON_UNKNOWN_LAYER);
}

TEST_CASE("Operator: a budget is set for good or for a while, and only the RAM pool has one",
          "[rpc]") {
  RpcFixture fixture;
  const auto channel = fixture.Connect();
  v1::SetBudgetRequest request;
  request.set_model("small");
  request.set_bytes(123'456);
  v1::SetBudgetReply reply;
  REQUIRE(SetBudget(channel, request, reply).ok());
  CHECK(reply.bytes() == 123'456);
  CHECK(fixture.core.admin_calls().back() == "budget 1 in 0 123456 0");
  request.set_for_seconds(600);
  REQUIRE(SetBudget(channel, request, reply).ok());
  CHECK(fixture.core.admin_calls().back() == "budget 1 in 0 123456 600");
  request.set_for_seconds(uint64_t{1} << 60);
  CHECK(FaultOf(SetBudget(channel, request, reply)).value().reason() == v1::REASON_TOO_LARGE);
  request.set_for_seconds(600);
  request.set_less_bytes(1000);
  CHECK(FaultOf(SetBudget(channel, request, reply)).value().field() == "less_bytes");
  request.clear_bytes();
  REQUIRE(SetBudget(channel, request, reply).ok());
  CHECK(fixture.core.admin_calls().back() == "lend 1 in 0 1000 600");
  CHECK(reply.bytes() == (1u << 20) - 1000);
  CHECK(reply.original_bytes() == 1u << 20);
  request.set_for_seconds(0);
  CHECK(FaultOf(SetBudget(channel, request, reply)).value().field() == "less_bytes");
  request.clear_less_bytes();
  request.set_pool(1);
  REQUIRE(SetBudget(channel, request, reply).ok());
  CHECK(fixture.core.admin_calls().back() == "budget 1 in 1 0 0");
  request.set_pool(2);
  CHECK(SetBudget(channel, request, reply).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace moetier
