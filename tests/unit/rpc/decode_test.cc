#include <catch2/catch.hpp>
#include <chrono>
#include <limits>
#include <set>
#include <thread>

#include "daemon/rpc/status_map.h"
#include "tests/support/raw_call.h"
#include "tests/support/rpc_fixture.h"

namespace moetier {
namespace {

// A round trip on the same connection: the server has seen every byte that was sent before it.
void RoundTrip(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  v1::ListModelsReply reply;
  REQUIRE(v1::Models::NewStub(channel)->List(&context, {}, &reply).ok());
}

}  // namespace

TEST_CASE("Decode: a layer message is answered with the weighted sum of its picks", "[rpc]") {
  RpcFixture fixture;
  AttachedClient client(fixture.Connect());
  DecodeClient decode(client);
  REQUIRE(decode.Send(SmallRequest(5, 2, 2)));
  const v1::LayerReply reply = decode.ReadOne();
  CHECK(reply.request_id() == 5);
  REQUIRE(reply.has_ok());
  // 0.5 * 1 + 0.5 * 2 = 1.5 times each row.
  CHECK(Floats(reply.ok().output()) == std::vector<float>{1.5f, 3, 4.5f, 6, 3, 3, 4.5f, 6});
  CHECK(reply.ok().arithmetic() == "fake-1");
  CHECK(reply.ok().lanes(0).experts() == 2);
  CHECK(reply.ok().hits() == 2);
}

TEST_CASE("Decode (1): a stream that does not begin with Open ends with NO_OPEN", "[rpc]") {
  RpcFixture fixture;
  AttachedClient client(fixture.Connect());
  grpc::ClientContext context;
  const auto stream = client.stub().Decode(&context);
  v1::DecodeRequest request;
  *request.mutable_layer() = SmallRequest(1);
  stream->Write(request);
  v1::LayerReply reply;
  CHECK_FALSE(stream->Read(&reply));
  const grpc::Status status = stream->Finish();
  CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(ReasonOf(status) == v1::REASON_NO_OPEN);
  CHECK(fixture.core.submitted() == 0);
}

TEST_CASE("Decode (1): Open with a wrong token or number gets UNKNOWN_SESSION", "[rpc]") {
  RpcFixture fixture;
  AttachedClient client(fixture.Connect());
  v1::SessionRef ref = client.ref();
  ref.mutable_token()->at(3) = static_cast<char>(ref.token().at(3) ^ 1);
  CHECK(ReasonOf(DecodeClient(client.stub(), ref).Finish()) == v1::REASON_UNKNOWN_SESSION);
  ref = client.ref();
  ref.set_session(ref.session() + 1);
  CHECK(ReasonOf(DecodeClient(client.stub(), ref).Finish()) == v1::REASON_UNKNOWN_SESSION);
  ref = client.ref();
  ref.clear_token();
  CHECK(ReasonOf(DecodeClient(client.stub(), ref).Finish()) == v1::REASON_UNKNOWN_SESSION);
}

TEST_CASE("Decode (1): several streams of a session work, one more than allowed does not",
          "[rpc]") {
  RpcFixture fixture;
  AttachedClient client(fixture.Connect());
  std::vector<std::unique_ptr<DecodeClient>> streams;
  for (uint64_t i = 0; i < 4; ++i) {
    streams.push_back(std::make_unique<DecodeClient>(client));
    streams.back()->Send(SmallRequest(1));  // the same id on another stream is no conflict
    CHECK(streams.back()->ReadOne().has_ok());
  }
  CHECK(ReasonOf(DecodeClient(client).Finish()) == v1::REASON_QUOTA);
  streams.front()->HalfClose();
  CHECK(streams.front()->Finish().ok());
}

TEST_CASE("Decode (1): a second Open or an empty message is broken protocol", "[rpc]") {
  RpcFixture fixture;
  AttachedClient client(fixture.Connect());
  DecodeClient twice(client);
  v1::DecodeRequest request;
  *request.mutable_open() = client.ref();
  twice.Send(request);
  CHECK(ReasonOf(twice.Finish()) == v1::REASON_NO_OPEN);
  DecodeClient empty(client);
  empty.Send(v1::DecodeRequest{});
  CHECK(ReasonOf(empty.Finish()) == v1::REASON_BAD_TYPE);
}

TEST_CASE("Decode (3): calls are submitted in arrival order and answered as they complete",
          "[rpc]") {
  RpcFixture fixture;
  fixture.core.HoldCalls();
  AttachedClient client(fixture.Connect());
  DecodeClient decode(client);
  for (uint32_t id = 10; id < 14; ++id) decode.Send(SmallRequest(id, id - 9));
  REQUIRE(fixture.core.WaitForHeld(4));
  for (uint32_t i = 0; i < 4; ++i) CHECK(fixture.core.HeldCall(i).rows == i + 1);
  for (const size_t index : {2u, 0u, 3u, 1u}) {
    fixture.core.StartHeld(index);
    CHECK(decode.ReadOne().request_id() == 10 + index);
  }
}

TEST_CASE("Decode (3): every message is answered exactly once", "[rpc]") {
  RpcFixture fixture;
  AttachedClient client(fixture.Connect());
  DecodeClient decode(client);
  std::thread writer([&] {
    for (uint64_t id = 0; id < 500; ++id) {
      v1::LayerRequest request = SmallRequest(id);
      if (id % 5 == 0) request.set_rows(0);
      decode.Send(request);
    }
    decode.HalfClose();
  });
  std::multiset<uint64_t> answered;
  size_t faults = 0;
  v1::LayerReply reply;
  while (decode.Read(reply)) {
    answered.insert(reply.request_id());
    faults += reply.has_fault() ? 1 : 0;
  }
  writer.join();
  CHECK(decode.Finish().ok());
  CHECK(answered.size() == 500);
  CHECK(std::set<uint64_t>(answered.begin(), answered.end()).size() == 500);
  CHECK(faults == 100);
}

TEST_CASE("Decode (4): a bad message gets a Fault in the stream, which lives on", "[rpc]") {
  RpcFixture fixture;
  AttachedClient client(fixture.Connect());
  DecodeClient decode(client);
  v1::LayerRequest bad = SmallRequest(1, 2, 2);
  bad.set_experts(2, 0xFFFFFFFF);
  decode.Send(bad);
  const v1::LayerReply reply = decode.ReadOne();
  CHECK(reply.request_id() == 1);
  REQUIRE(reply.has_fault());
  CHECK(reply.fault().code() == 3);
  CHECK(reply.fault().reason() == v1::REASON_BAD_EXPERT_ID);
  CHECK(reply.fault().field() == "experts");
  CHECK(reply.fault().row() == 1);
  CHECK(reply.fault().expert() == 0xFFFFFFFF);
  CHECK(fixture.core.submitted() == 0);
  decode.Send(SmallRequest(1));
  CHECK(decode.ReadOne().has_ok());
}

TEST_CASE("Decode (4): a call that the core refuses or fails gets a Fault", "[rpc]") {
  RpcFixture fixture;
  AttachedClient client(fixture.Connect());
  DecodeClient decode(client);
  fixture.core.HoldCalls();
  decode.Send(SmallRequest(1));
  REQUIRE(fixture.core.WaitForHeld(1));
  fixture.core.RefuseSubmits({ErrorCode::kExhausted, Reason::kQuota, "queue full"});
  decode.Send(SmallRequest(2));
  const v1::LayerReply refused = decode.ReadOne();
  CHECK(refused.request_id() == 2);
  CHECK(refused.fault().code() == 8);
  CHECK(refused.fault().reason() == v1::REASON_QUOTA);
  fixture.core.FailHeld(0, {ErrorCode::kDataLoss, Reason::kQuarantined, "records.0 offset \xFF"});
  const v1::LayerReply failed = decode.ReadOne();
  CHECK(failed.fault().code() == 15);
  CHECK(failed.fault().reason() == v1::REASON_QUARANTINED);
  CHECK(failed.fault().message() == "records.0 offset ?");  // a path need not be UTF-8
}

TEST_CASE("Decode (4): a request_id in use ends the stream and cancels what it had", "[rpc]") {
  RpcFixture fixture;
  fixture.core.HoldCalls();
  AttachedClient client(fixture.Connect());
  DecodeClient decode(client);
  decode.Send(SmallRequest(9));
  decode.Send(SmallRequest(9));
  const grpc::Status status = decode.Finish();
  CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(ReasonOf(status) == v1::REASON_REQUEST_ID_IN_USE);
  REQUIRE(fixture.core.held() == 1);
  CHECK(fixture.core.HeldCall(0).control->cancelled.load());
  DecodeClient other(client);  // the session lives
  other.Send(SmallRequest(1));
  REQUIRE(fixture.core.WaitForHeld(2));
  fixture.core.StartHeld(1);
  CHECK(other.ReadOne().has_ok());
}

TEST_CASE("Decode (4): a frame above the grant ends the stream with RESOURCE_EXHAUSTED", "[rpc]") {
  RpcFixture fixture;
  AttachedClient client(fixture.Connect());
  CHECK(client.grant().limits().max_message_bytes() == 1u << 20);
  DecodeClient decode(client);
  v1::LayerRequest large = SmallRequest(1);
  large.set_hidden(std::string(1u << 20, '\0'));
  decode.Send(large);
  CHECK(decode.Finish().error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(fixture.core.submitted() == 0);
  DecodeClient other(client);
  other.Send(SmallRequest(1));
  CHECK(other.ReadOne().has_ok());
}

TEST_CASE("Decode (5): the server stops reading at max_in_flight and drops nothing", "[rpc]") {
  RpcFixture fixture;
  fixture.core.HoldCalls();
  const auto channel = fixture.Connect();
  AttachedClient client(channel);
  const uint32_t limit = client.grant().limits().max_in_flight();
  DecodeClient decode(client);
  for (uint64_t id = 0; id < limit + 3; ++id) REQUIRE(decode.Send(SmallRequest(id)));
  REQUIRE(fixture.core.WaitForHeld(limit));
  RoundTrip(channel);
  CHECK(fixture.core.held() == limit);
  fixture.core.StartHeld(0);
  CHECK(decode.ReadOne().has_ok());
  REQUIRE(fixture.core.WaitForHeld(limit + 1));
  RoundTrip(channel);
  CHECK(fixture.core.held() == limit + 1);
  for (size_t i = 1; i < limit + 3; ++i) {
    REQUIRE(fixture.core.WaitForHeld(i + 1));
    fixture.core.StartHeld(i);
    CHECK(decode.ReadOne().request_id() == i);
  }
}

TEST_CASE("Decode (5): faults count as unanswered, so bad messages cannot pile up", "[rpc]") {
  RpcFixture fixture;
  const auto channel = fixture.Connect();
  AttachedClient client(channel);
  DecodeClient decode(client);
  v1::LayerRequest bad = SmallRequest(0);
  bad.set_layer(0);
  for (uint64_t id = 0; id < 100; ++id) {
    bad.set_request_id(id);
    REQUIRE(decode.Send(bad));
  }
  for (uint64_t id = 0; id < 100; ++id) {
    CHECK(decode.ReadOne().fault().reason() == v1::REASON_UNKNOWN_LAYER);
  }
}

TEST_CASE("Decode (5): a client that does not read its replies stalls only itself", "[rpc]") {
  RpcFixture fixture;
  AttachedClient lazy(fixture.Connect());
  DecodeClient stuck(lazy);
  // 128 KiB of output each: more than an HTTP/2 window of 64 KiB.
  std::thread writer([&] {
    for (uint64_t id = 0; id < 64; ++id) {
      if (!stuck.Send(SmallRequest(id, 8192, 1))) return;
    }
  });
  AttachedClient busy(fixture.Connect());
  DecodeClient decode(busy);
  for (uint64_t id = 0; id < 50; ++id) {
    decode.Send(SmallRequest(id));
    CHECK(decode.ReadOne().has_ok());
  }
  for (uint64_t id = 0; id < 64; ++id) CHECK(stuck.ReadOne().has_ok());
  writer.join();
}

TEST_CASE("Decode (6): timeout_us before the start of execution gives DEADLINE_EXCEEDED", "[rpc]") {
  RpcFixture fixture;
  fixture.core.HoldCalls();
  AttachedClient client(fixture.Connect());
  DecodeClient decode(client);
  v1::LayerRequest request = SmallRequest(1);
  request.set_timeout_us(1);
  decode.Send(request);
  REQUIRE(fixture.core.WaitForHeld(1));
  const LayerCall call = fixture.core.HeldCall(0);
  CHECK(call.deadline == call.received + std::chrono::microseconds(1));
  while (std::chrono::steady_clock::now() <= *call.deadline) {
  }
  fixture.core.StartHeld(0);
  const v1::LayerReply reply = decode.ReadOne();
  CHECK(reply.fault().code() == 4);
  CHECK(reply.fault().reason() == v1::REASON_DEADLINE);
}

TEST_CASE("Decode (6): cancel before the start gives CANCELLED, of an unknown id nothing",
          "[rpc]") {
  RpcFixture fixture;
  fixture.core.HoldCalls();
  const auto channel = fixture.Connect();
  AttachedClient client(channel);
  DecodeClient decode(client);
  decode.Send(SmallRequest(1));
  decode.Send(SmallRequest(2));
  decode.SendCancel(1);
  decode.SendCancel(77);
  decode.Send(SmallRequest(3));
  REQUIRE(fixture.core.WaitForHeld(3));  // both cancels were read before the third message
  fixture.core.StartHeld(0);
  const v1::LayerReply reply = decode.ReadOne();
  CHECK(reply.request_id() == 1);
  CHECK(reply.fault().code() == 1);
  CHECK(reply.fault().reason() == v1::REASON_CANCELLED);
  fixture.core.StartHeld(1);
  CHECK(decode.ReadOne().has_ok());
  decode.SendCancel(1);  // no longer in flight
  fixture.core.StartHeld(2);
  CHECK(decode.ReadOne().has_ok());
}

TEST_CASE("Decode: bytes that are no message end an open stream with BAD_TYPE", "[rpc]") {
  RpcFixture fixture;
  const auto channel = fixture.Connect();
  AttachedClient client(channel);
  v1::DecodeRequest open;
  *open.mutable_open() = client.ref();
  const std::string method = "/moetier.v1.Experts/Decode";
  const RawReply reply =
      RawStream(channel, method, {open.SerializeAsString(), "\xFF\xFF\xFF junk"});
  CHECK(reply.status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(ReasonOf(reply.status) == v1::REASON_BAD_TYPE);
  CHECK(RawStream(channel, method, {open.SerializeAsString()}).status.ok());
}

TEST_CASE("Decode (7): after half-close the outstanding are answered, then OK", "[rpc]") {
  RpcFixture fixture;
  fixture.core.HoldCalls();
  AttachedClient client(fixture.Connect());
  DecodeClient decode(client);
  decode.Send(SmallRequest(1));
  decode.Send(SmallRequest(2));
  decode.HalfClose();
  REQUIRE(fixture.core.WaitForHeld(2));
  fixture.core.StartHeld(1);
  CHECK(decode.ReadOne().request_id() == 2);
  fixture.core.StartHeld(0);
  CHECK(decode.ReadOne().request_id() == 1);
  v1::LayerReply reply;
  CHECK_FALSE(decode.Read(reply));
  CHECK(decode.Finish().ok());
}

TEST_CASE("Decode (8): masked picks are listed in the result", "[rpc]") {
  RpcFixture fixture;
  fixture.core.set_masked({{.row = 3, .pick = 1}});
  AttachedClient client(fixture.Connect());
  DecodeClient decode(client);
  decode.Send(SmallRequest(1));
  const v1::LayerReply reply = decode.ReadOne();
  REQUIRE(reply.ok().masked_size() == 1);
  CHECK(reply.ok().masked(0).row() == 3);
  CHECK(reply.ok().masked(0).pick() == 1);
}

TEST_CASE("Decode (9): draining answers what was read and refuses what comes later", "[rpc]") {
  RpcFixture fixture;
  fixture.core.HoldCalls();
  fixture.core.HoldDrain();
  AttachedClient client(fixture.Connect());
  DecodeClient decode(client);
  decode.Send(SmallRequest(1));
  REQUIRE(fixture.core.WaitForHeld(1));
  std::thread stopper([&] { static_cast<void>(fixture.server->Stop(std::chrono::seconds(10))); });
  v1::SessionEvent event;
  REQUIRE(client.NextEvent(event));
  CHECK(event.has_draining());
  REQUIRE(fixture.core.WaitForDrain());
  decode.Send(SmallRequest(2));
  const v1::LayerReply late = decode.ReadOne();
  CHECK(late.request_id() == 2);
  CHECK(late.fault().code() == 14);
  CHECK(late.fault().reason() == v1::REASON_DRAINING);
  AttachedClient newcomer(fixture.Connect());
  CHECK_FALSE(newcomer.attached());
  CHECK(ReasonOf(newcomer.Finish()) == v1::REASON_DRAINING);
  fixture.core.StartHeld(0);
  CHECK(decode.ReadOne().has_ok());
  CHECK(ReasonOf(decode.Finish()) == v1::REASON_DRAINING);
  CHECK(ReasonOf(client.Finish()) == v1::REASON_DRAINING);
  stopper.join();
}

TEST_CASE("Decode: a client that goes away cancels its calls and leaves nothing behind", "[rpc]") {
  RpcFixture fixture;
  fixture.core.HoldCalls();
  AttachedClient client(fixture.Connect());
  {
    DecodeClient decode(client);
    decode.Send(SmallRequest(1));
    REQUIRE(fixture.core.WaitForHeld(1));
    decode.context().TryCancel();
    CHECK(decode.Finish().error_code() == grpc::StatusCode::CANCELLED);
  }
  // A stream of a session that has room for four streams again and again.
  for (uint64_t i = 1; i < 9; ++i) {
    DecodeClient decode(client);
    decode.Send(SmallRequest(1));
    REQUIRE(fixture.core.WaitForHeld(i + 1));
    fixture.core.StartHeld(i);
    CHECK(decode.ReadOne().has_ok());
    decode.HalfClose();
    CHECK(decode.Finish().ok());
  }
  fixture.core.StartHeld(0);  // its answer finds no stream and goes nowhere
}

}  // namespace moetier
