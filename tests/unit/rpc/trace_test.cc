#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "daemon/rpc/trace_tap.h"
#include "tests/support/rpc_fixture.h"

namespace moetier {
namespace {

LayerCall CallOf(uint32_t model, uint32_t rows) {
  LayerCall call;
  call.model = ModelId{model};
  call.rows = rows;
  call.top_k = 2;
  call.experts.assign(size_t{rows} * 2, 3);
  return call;
}

// A recording whose first record can be awaited.
class Recorder {
 public:
  Recorder(const std::shared_ptr<grpc::Channel>& channel, const std::string& model)
      : stub_(v1::Operator::NewStub(channel)) {
    v1::RecordTraceRequest request;
    request.set_model(model);
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    stream_ = stub_->RecordTrace(&context_, request);
    stream_->WaitForInitialMetadata();
  }
  bool Read(v1::TraceRecord& record) { return stream_->Read(&record); }
  grpc::Status End() {
    context_.TryCancel();
    v1::TraceRecord record;
    while (stream_->Read(&record)) continue;
    return stream_->Finish();
  }
  grpc::Status Finish() { return stream_->Finish(); }

 private:
  std::unique_ptr<v1::Operator::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::TraceRecord>> stream_;
};

v1::LayerRequest OneRow(uint64_t id) {
  v1::LayerRequest layer;
  layer.set_request_id(id);
  layer.set_layer(3);
  layer.set_rows(1);
  layer.set_top_k(2);
  layer.set_hidden_type(v1::DTYPE_F32);
  layer.set_hidden(std::string(SmallModel().geometry->hidden * sizeof(float), '\0'));
  layer.add_experts(1);
  layer.add_experts(0);
  layer.add_weights(0.5f);
  layer.add_weights(0.5f);
  return layer;
}

}  // namespace

TEST_CASE("TraceTap: what does not fit is lost, and the next record says how much", "[rpc]") {
  SteadyClock clock;
  TraceTap tap(ModelId{1}, clock, clock.Now());
  // Rows of two picks.
  const uint32_t half = (TraceTap::kMostPicks / 2 - TraceTap::kRecordPicks) / 2;
  CHECK(tap.OnAnswered(CallOf(1, half), {}) == RouteTap::Next::kMore);
  CHECK(tap.OnAnswered(CallOf(2, 1), {}) == RouteTap::Next::kMore);  // another model
  CHECK(tap.OnAnswered(CallOf(1, half), {}) == RouteTap::Next::kMore);
  for (int i = 0; i < 3; ++i) tap.OnAnswered(CallOf(1, 1), {});
  CHECK(tap.Take()->lost() == 0);
  CHECK(tap.OnAnswered(CallOf(1, 1), {}) == RouteTap::Next::kMore);
  CHECK(tap.Take()->rows() == half);
  CHECK(tap.Take()->lost() == 3);
  CHECK_FALSE(tap.Take().has_value());
  for (int i = 0; i < 2; ++i) tap.OnAnswered(CallOf(1, half), {});
  for (int i = 0; i < 4; ++i) tap.OnAnswered(CallOf(1, half), {});
  CHECK(tap.Take()->rows() == half);
  CHECK(tap.Take()->rows() == half);
  const v1::TraceRecord last = tap.Take().value();  // nothing follows
  CHECK(last.lost() == 4);
  CHECK(last.rows() == 0);
  CHECK_FALSE(tap.Take().has_value());
  CHECK_FALSE(tap.closed());
  tap.Close();
  CHECK(tap.closed());
  CHECK(tap.OnAnswered(CallOf(1, 1), {}) == RouteTap::Next::kNoMore);
}

TEST_CASE("Operator.RecordTrace: sends what is answered from then on, until the client ends it",
          "[rpc]") {
  RpcFixture fixture;
  AttachedClient client(fixture.Connect());
  DecodeClient decode(client);
  REQUIRE(decode.Send(OneRow(1)));
  REQUIRE(decode.ReadOne().has_ok());
  Recorder recorder(fixture.Connect(), "small");
  for (uint64_t id = 2; id < 5; ++id) {
    REQUIRE(decode.Send(OneRow(id)));
    REQUIRE(decode.ReadOne().has_ok());
  }
  for (int i = 0; i < 3; ++i) {
    v1::TraceRecord record;
    REQUIRE(recorder.Read(record));
    CHECK(record.layer() == 3);
    CHECK(record.rows() == 1);
    CHECK(std::vector<uint32_t>(record.experts().begin(), record.experts().end()) ==
          std::vector<uint32_t>{1, 0});
    CHECK(record.session() == client.ref().session());
    CHECK(record.timing().total_us() == 1);
  }
  CHECK(recorder.End().error_code() == grpc::StatusCode::CANCELLED);
  REQUIRE(decode.Send(OneRow(9)));  // the tap is dropped, nobody is harmed
  CHECK(decode.ReadOne().has_ok());
}

TEST_CASE("Operator.RecordTrace: ends when its model is unloaded", "[rpc]") {
  RpcFixture fixture;
  Recorder recorder(fixture.Connect(), "small");
  REQUIRE(fixture.core.UnloadModel("small").has_value());
  v1::TraceRecord record;
  CHECK_FALSE(recorder.Read(record));
  CHECK(ReasonOf(recorder.Finish()) == v1::REASON_UNKNOWN_MODEL);
}

TEST_CASE("Operator.RecordTrace: an unknown model is refused, a drain ends it with DRAINING",
          "[rpc]") {
  RpcFixture fixture;
  Recorder unknown(fixture.Connect(), "nope");
  v1::TraceRecord record;
  CHECK_FALSE(unknown.Read(record));
  CHECK(ReasonOf(unknown.Finish()) == v1::REASON_UNKNOWN_MODEL);
  Recorder all(fixture.Connect(), "");
  std::jthread stop([&] { static_cast<void>(fixture.server->Stop(std::chrono::seconds(5))); });
  CHECK_FALSE(all.Read(record));
  CHECK(ReasonOf(all.Finish()) == v1::REASON_DRAINING);
}

}  // namespace moetier
