#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "tests/support/rpc_fixture.h"

namespace moetier {
namespace {

v1::PinRequest OnePin() {
  v1::PinRequest request;
  request.set_model("small");
  request.set_layer(3);
  request.add_experts(1);
  return request;
}

grpc::Status Unload(const std::shared_ptr<grpc::Channel>& channel, const std::string& name) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  v1::UnloadModelRequest request;
  request.set_name(name);
  v1::UnloadModelReply reply;
  return v1::Models::NewStub(channel)->Unload(&context, request, &reply);
}

}  // namespace

TEST_CASE("Operator calls: pins and a verify that take long hold up no unload", "[rpc]") {
  RpcFixture fixture;
  fixture.core.HoldWork();
  const auto channel = fixture.Connect();
  std::vector<std::future<grpc::Status>> pins;
  for (size_t i = 0; i < AdminWorker::kMaxQueued + 4; ++i) {
    pins.push_back(std::async(std::launch::async, [&] {
      grpc::ClientContext context;
      v1::PinReply reply;
      return v1::Operator::NewStub(channel)->Pin(&context, OnePin(), &reply);
    }));
  }
  grpc::ClientContext verify_context;
  v1::VerifyModelRequest verify;
  verify.set_name("small");
  const auto verifying = v1::Models::NewStub(channel)->Verify(&verify_context, verify);
  const grpc::Status unloaded = Unload(channel, "small");
  INFO(unloaded.error_message());
  CHECK(unloaded.ok());
  fixture.core.ReleaseWork();
  v1::Progress progress;
  while (verifying->Read(&progress)) {
  }
  (void)verifying->Finish();  // the model may have been unloaded before it
  size_t refused = 0;
  for (auto& pin : pins) refused += pin.get().error_code() == grpc::RESOURCE_EXHAUSTED ? 1 : 0;
  CHECK(refused <= 4);  // the queue's bound: of its own kind
}

TEST_CASE("Operator calls: what waits when the daemon stops is refused with DRAINING", "[rpc]") {
  std::promise<void> begun;
  std::promise<void> go_on;
  std::promise<Reason> waited;
  AdminWorker worker("rpc-test");  // the last: its work uses the promises until it has ended
  REQUIRE(worker
              .Run([&](const Status&) {
                begun.set_value();
                go_on.get_future().wait();
              })
              .has_value());
  begun.get_future().wait();
  REQUIRE(worker
              .Run([&](const Status& go) {
                waited.set_value(go ? Reason::kUnspecified : go.error().reason);
              })
              .has_value());
  worker.BeginStop();
  CHECK(waited.get_future().get() == Reason::kDraining);
  CHECK(worker.Run([](const Status&) {}).error().reason == Reason::kDraining);
  go_on.set_value();
}

TEST_CASE("Models: Load refuses a name that the configuration would refuse", "[rpc]") {
  RpcFixture fixture;
  const auto stub = v1::Models::NewStub(fixture.Connect());
  const std::string name =
      GENERATE(as<std::string>{}, "", "a\nb", "a b", "\x1B[2J", std::string(65, 'x'));
  v1::LoadModelRequest request;
  request.set_name(name);
  request.set_directory(fixture.folder.path());
  grpc::ClientContext context;
  const auto stream = stub->Load(&context, request);
  v1::Progress progress;
  while (stream->Read(&progress)) {
  }
  const grpc::Status status = stream->Finish();
  CHECK(status.error_code() == grpc::INVALID_ARGUMENT);
  CHECK(ReasonOf(status) == v1::REASON_BAD_CONFIG);
  CHECK(status.error_message().find("is not a model name") != std::string::npos);
}

}  // namespace moetier
