#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "tests/support/lane_fixture.h"
#include "tests/support/raw_lane.h"

namespace moetier::testing {
namespace {

uint32_t Number(Reason reason) { return static_cast<uint32_t>(reason); }

// The upper half of a value: bf16, rounded to zero.
uint16_t ToBFloat(float value) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
}

// f16 of a value in (-2, 2) that is a multiple of 1/1024.
uint16_t ToHalf(float value) {
  if (value == 0) return 0;
  int exponent = 0;
  const float fraction = std::frexp(std::fabs(value), &exponent);  // 0.5..1
  const auto mantissa = static_cast<uint32_t>(std::lround(fraction * 2048.0f)) - 1024;
  return static_cast<uint16_t>((value < 0 ? 0x8000u : 0u) |
                               (static_cast<uint32_t>(exponent + 14) << 10) | mantissa);
}

struct Failure {
  moetier_status status = MOETIER_OK;
  moetier_error error{};
};

Failure Compute(const Lane& lane, const moetier_layer_call& call) {
  Failure failure;
  failure.status = moetier_lane_compute(lane.get(), &call, nullptr, &failure.error);
  return failure;
}

// A slot that holds a good call of one row, before it is submitted.
void FillSlot(RawLane& lane, LaneCall& call) {
  moetier_wire_request& request = lane.slot(0).request;
  request.layer = call.layer;
  request.rows = call.rows;
  request.top_k = call.top_k;
  request.hidden = call.width;
  request.hidden_type = MOETIER_F32;
  std::memcpy(lane.section(0, lane.grant().experts_offset), call.experts.data(),
              call.experts.size() * sizeof(int32_t));
  std::memcpy(lane.section(0, lane.grant().weights_offset), call.weights.data(),
              call.weights.size() * sizeof(float));
  std::memcpy(lane.section(0, lane.grant().hidden_offset), call.hidden.data(),
              call.hidden.size() * sizeof(float));
}

}  // namespace

TEST_CASE("Fast lane: f16 and bf16 rows have the bits of the f32 values that they stand for",
          "[fastlane]") {
  LaneFixture fixture;
  const Lane lane(fixture);
  REQUIRE(lane.status == MOETIER_OK);
  for (const uint32_t type : {MOETIER_F16, MOETIER_BF16}) {
    INFO("type " << type);
    LaneCall call(fixture, 5, 17);
    std::vector<uint16_t> narrow;
    for (float& value : call.hidden) {
      value = std::trunc(value * 1024.0f) / 1024.0f;
      if (type == MOETIER_BF16) value = std::bit_cast<float>(uint32_t{ToBFloat(value)} << 16);
      narrow.push_back(type == MOETIER_F16 ? ToHalf(value) : ToBFloat(value));
    }
    moetier_layer_call request = call.Request();
    request.hidden_type = type;
    request.hidden_rows = narrow.data();
    REQUIRE(moetier_lane_compute(lane.get(), &request, nullptr, nullptr) == MOETIER_OK);
    CHECK(call.output == call.Expected(fixture));
  }
}

TEST_CASE("Fast lane: strided rows are taken and given as packed ones", "[fastlane]") {
  LaneFixture fixture;
  const Lane lane(fixture);
  REQUIRE(lane.status == MOETIER_OK);
  for (const uint32_t rows : {7u, 150u}) {  // one piece, three pieces
    LaneCall call(fixture, rows, 3);
    const size_t width = call.width;
    const size_t top_k = call.top_k;
    std::vector<float> hidden(rows * (width + 3), 1e30f);
    std::vector<int32_t> experts(rows * (top_k + 5), -1);
    std::vector<float> weights(rows * (top_k + 1), 1e30f);
    std::vector<float> output(rows * (width + 2), 7.0f);
    for (size_t row = 0; row < rows; ++row) {
      std::copy_n(&call.hidden[row * width], width, &hidden[row * (width + 3)]);
      std::copy_n(&call.experts[row * top_k], top_k, &experts[row * (top_k + 5)]);
      std::copy_n(&call.weights[row * top_k], top_k, &weights[row * (top_k + 1)]);
    }
    moetier_layer_call request = call.Request();
    request.hidden_rows = hidden.data();
    request.hidden_stride = (width + 3) * sizeof(float);
    request.experts = experts.data();
    request.experts_stride = (top_k + 5) * sizeof(int32_t);
    request.weights = weights.data();
    request.weights_stride = (top_k + 1) * sizeof(float);
    request.output = output.data();
    request.output_stride = (width + 2) * sizeof(float);
    REQUIRE(moetier_lane_compute(lane.get(), &request, nullptr, nullptr) == MOETIER_OK);
    const std::vector<float> expected = call.Expected(fixture);
    for (size_t row = 0; row < rows; ++row) {
      REQUIRE(std::equal(&expected[row * width], &expected[row * width] + width,
                         &output[row * (width + 2)]));
      REQUIRE(output[row * (width + 2) + width] == 7.0f);  // between rows nothing is written
    }
  }
}

TEST_CASE("Fast lane: several calls in flight are waited for in any order", "[fastlane]") {
  LaneFixture fixture;
  const Lane lane(fixture);
  REQUIRE(lane.status == MOETIER_OK);
  for (int round = 0; round < 50; ++round) {
    std::vector<LaneCall> calls;
    std::vector<uint64_t> tickets(4);
    for (uint64_t i = 0; i < 4; ++i) calls.emplace_back(fixture, 1 + i, round * 4 + i);
    for (size_t i = 0; i < 4; ++i) {
      const moetier_layer_call request = calls[i].Request();
      REQUIRE(moetier_lane_submit(lane.get(), &request, &tickets[i], nullptr) == MOETIER_OK);
    }
    LaneCall more(fixture, 1, 99);
    const moetier_layer_call fifth = more.Request();
    uint64_t ticket = 0;
    moetier_error error{};
    CHECK(moetier_lane_submit(lane.get(), &fifth, &ticket, &error) == MOETIER_FAULT);
    CHECK(error.reason == Number(Reason::kQuota));
    CHECK(moetier_lane_compute(lane.get(), &fifth, nullptr, &error) == MOETIER_FAULT);
    for (const size_t i : {2u, 0u, 3u, 1u}) {
      REQUIRE(moetier_lane_wait(lane.get(), tickets[i], nullptr, nullptr) == MOETIER_OK);
      CHECK(calls[i].output == calls[i].Expected(fixture));
    }
    CHECK(moetier_lane_wait(lane.get(), tickets[0], nullptr, nullptr) == MOETIER_MISUSE);
  }
}

TEST_CASE("Fast lane: a bad call is a fault with gRPC's reason and text, and the lane lives",
          "[fastlane]") {
  LaneFixture fixture;
  const Lane lane(fixture);
  REQUIRE(lane.status == MOETIER_OK);
  LaneCall call(fixture, 2, 1);
  moetier_layer_call request = call.Request();
  request.layer = 99;
  CHECK(Compute(lane, request).status == MOETIER_FAULT);
  CHECK(Compute(lane, request).error.code == 5);
  CHECK(Compute(lane, request).error.reason == Number(Reason::kUnknownLayer));
  request = call.Request();
  const int32_t kept = call.experts[1];
  call.experts[1] = -1;
  const Failure no_expert = Compute(lane, request);
  CHECK(no_expert.error.code == 3);
  CHECK(no_expert.error.reason == Number(Reason::kBadExpertId));
  CHECK(std::string(no_expert.error.text)
            .find("experts: row 0, pick 1 is 4294967295 (-1 as int32)") == 0);
  call.experts[1] = call.experts[0];
  CHECK(Compute(lane, request).error.reason == Number(Reason::kDuplicateExpert));
  call.experts[1] = kept;
  call.weights[3] = std::numeric_limits<float>::infinity();
  CHECK(Compute(lane, request).error.reason == Number(Reason::kNotFinite));
  call.weights[3] = 0;
  call.hidden[call.width] = std::numeric_limits<float>::quiet_NaN();
  CHECK(Compute(lane, request).error.text ==
        std::string("hidden: row 1, column 0 is nan; must be finite"));
  call.hidden[call.width] = 0;
  CHECK(Compute(lane, request).status == MOETIER_OK);
  CHECK(call.output == call.Expected(fixture));
  const SessionRecord& record = *fixture.book.sessions().front();
  CHECK(record.counters.faults == 7);
  CHECK(record.counters.requests == 8);
  CHECK(record.counters.rows == 2);
  CHECK(record.counters.in_flight == 0);
  CHECK(record.transport == "fastlane");
  CHECK(record.client == "test");
  CHECK(record.model_name == "demo");
}

TEST_CASE("Fast lane: what the library would not send is refused by the daemon too", "[fastlane]") {
  LaneFixture fixture;
  RawLane lane(fixture.socket_path);
  REQUIRE(lane.Attach());
  LaneCall call(fixture, 1, 1);
  struct Case {
    uint32_t moetier_wire_request::*field;
    uint32_t value;
    Reason reason;
    const char* name;
  };
  const std::vector<Case> cases = {
      {&moetier_wire_request::rows, 0, Reason::kBadRows, "rows"},
      {&moetier_wire_request::rows, 65, Reason::kBadRows, "rows"},
      {&moetier_wire_request::rows, UINT32_MAX, Reason::kBadRows, "rows"},
      {&moetier_wire_request::top_k, 0, Reason::kBadTopK, "top_k"},
      {&moetier_wire_request::top_k, 65, Reason::kBadTopK, "top_k"},
      {&moetier_wire_request::top_k, UINT32_MAX, Reason::kBadTopK, "top_k"},
      {&moetier_wire_request::hidden, 0, Reason::kBadShape, "hidden"},
      {&moetier_wire_request::hidden, call.width + 1, Reason::kBadShape, "hidden"},
      {&moetier_wire_request::hidden, UINT32_MAX, Reason::kBadShape, "hidden"},
      {&moetier_wire_request::hidden_type, 0, Reason::kBadType, "hidden_type"},
      {&moetier_wire_request::hidden_type, 4, Reason::kBadType, "hidden_type"},
      {&moetier_wire_request::forced_lane, 2, Reason::kBadLane, "forced_lane"},
      {&moetier_wire_request::layer, UINT32_MAX, Reason::kUnknownLayer, "layer"}};
  for (const Case& each : cases) {
    INFO(each.name << " = " << each.value);
    FillSlot(lane, call);
    lane.slot(0).request.forced_lane = 0;
    lane.slot(0).request.*each.field = each.value;
    lane.Submit(0);
    REQUIRE(lane.WaitForAnswer(0));
    CHECK(lane.slot(0).reply.reason == Number(each.reason));
    CHECK(lane.slot(0).reply.field == std::string(each.name));
  }
  FillSlot(lane, call);
  lane.slot(0).request.forced_lane = 1;
  lane.Submit(0);
  REQUIRE(lane.WaitForAnswer(0));
  CHECK(lane.slot(0).reply.code == 0);
  CHECK(std::memcmp(lane.section(0, lane.grant().output_offset), call.Expected(fixture).data(),
                    call.width * sizeof(float)) == 0);
}

TEST_CASE("Fast lane: arguments that break the header's rules are misuse", "[fastlane]") {
  LaneFixture fixture;
  const Lane lane(fixture);
  LaneCall call(fixture, 1, 1);
  const auto misuse = [&](auto change) {
    moetier_layer_call request = call.Request();
    change(request);
    return Compute(lane, request).status == MOETIER_MISUSE;
  };
  CHECK(misuse([](moetier_layer_call& c) { c.size = 8; }));
  CHECK(misuse([](moetier_layer_call& c) { c.rows = 0; }));
  CHECK(misuse([](moetier_layer_call& c) { c.top_k = 65; }));
  CHECK(misuse([](moetier_layer_call& c) { c.hidden = 1u << 30; }));
  CHECK(misuse([](moetier_layer_call& c) { c.hidden_type = 9; }));
  CHECK(misuse([](moetier_layer_call& c) { c.output = nullptr; }));
  CHECK(misuse([](moetier_layer_call& c) { c.experts_stride = 1; }));
  const moetier_layer_call good = call.Request();
  CHECK(Compute(lane, good).status == MOETIER_OK);
}

TEST_CASE("Fast lane: a full queue is back-pressure, not a refusal", "[fastlane]") {
  ExpertCore::Options options;
  options.executor.max_queued_calls = 1;
  options.executor.max_active_batches = 1;
  LaneFixture fixture(LaneFixture::DefaultOptions(), options);
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (uint64_t client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      const Lane lane(fixture);
      LaneCall call(fixture, 200, client);  // four pieces at once
      const moetier_layer_call request = call.Request();
      for (int i = 0; i < 5; ++i) {
        if (moetier_lane_compute(lane.get(), &request, nullptr, nullptr) == MOETIER_OK) ++good;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  CHECK(good == 20);
}

TEST_CASE("Fast lane: a timeout that passes before the start is DEADLINE", "[fastlane]") {
  LaneFixture fixture;
  const Lane lane(fixture);
  LaneCall late(fixture, 1, 77);
  moetier_layer_call request = late.Request();
  request.timeout_us = 1;
  // The executor begins what it finds at once, so that a lone call may still be in time.
  bool missed = false;
  for (int i = 0; i < 200 && !missed; ++i) {
    const Failure failure = Compute(lane, request);
    missed = failure.status == MOETIER_FAULT && failure.error.reason == Number(Reason::kDeadline);
    if (!missed) REQUIRE(failure.status == MOETIER_OK);
  }
  CHECK(missed);
}

TEST_CASE("Fast lane: calls on a model that was unloaded are faults, and others go on",
          "[fastlane]") {
  LaneFixture fixture;
  const Lane lane(fixture);
  LaneCall call(fixture, 1, 1);
  const moetier_layer_call request = call.Request();
  REQUIRE(Compute(lane, request).status == MOETIER_OK);
  REQUIRE(fixture.core->UnloadModel("demo").has_value());
  const Failure failure = Compute(lane, request);
  CHECK(failure.status == MOETIER_FAULT);
  CHECK(failure.error.reason == Number(Reason::kUnknownModel));
}

}  // namespace moetier::testing
