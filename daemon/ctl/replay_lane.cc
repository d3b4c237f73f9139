#include "daemon/ctl/replay_lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <vector>

namespace moetier {
namespace {

Error LaneError(const moetier_error& error) {
  return {ErrorCode::kUnavailable, Reason::kUnspecified, fmt::format("fast lane: {}", error.text)};
}

// An answer as gRPC would have brought it.
v1::LayerReply ReplyOf(std::span<const float> output, const moetier_layer_info& info) {
  v1::LayerReply reply;
  v1::LayerResult& ok = *reply.mutable_ok();
  ok.set_output(output.data(), output.size_bytes());
  ok.set_hits(info.hits);
  ok.set_in_flight(info.in_flight);
  ok.set_misses(info.misses);
  for (uint32_t i = 0; i < info.masked; ++i) ok.add_masked();
  return reply;
}

v1::LayerReply ReplyOf(const moetier_error& error) {
  v1::LayerReply reply;
  v1::Fault& fault = *reply.mutable_fault();
  fault.set_code(error.code);
  fault.set_reason(static_cast<v1::Reason>(error.reason));
  fault.set_message(error.text);
  return reply;
}

}  // namespace

// A call under way and its memory.
struct ReplayLane::Flight {
  ReplayCall call;
  uint64_t ticket = 0;
  std::vector<float> hidden;
  std::vector<int32_t> experts;
  std::vector<float> weights;
  std::vector<float> output;
};

Result<std::unique_ptr<ReplayLane>> ReplayLane::Attach(const std::string& socket,
                                                       const std::string& model) {
  moetier_attach attach{};
  attach.size = sizeof attach;
  attach.socket = socket.c_str();
  attach.client = "moetierctl replay";
  attach.model = model.c_str();
  moetier_lane* lane = nullptr;
  moetier_error error{};
  if (moetier_lane_attach(&attach, 0, &lane, &error) != MOETIER_OK) return LaneError(error);
  return std::unique_ptr<ReplayLane>(new ReplayLane(lane));
}

ReplayLane::~ReplayLane() { moetier_lane_close(lane_); }

Status ReplayLane::Submit(const GoldenRows& rows, uint32_t block, Flight& flight) {
  const ReplayCall& call = flight.call;
  for (uint32_t token = call.first_token; token < call.first_token + call.rows; ++token) {
    const auto hidden = rows.HiddenOf(token, call.layer);
    flight.hidden.insert(flight.hidden.end(), hidden.begin(), hidden.end());
    for (const uint32_t expert : rows.ExpertsOf(token, call.layer)) {
      flight.experts.push_back(static_cast<int32_t>(expert));
    }
    const auto weights = rows.WeightsOf(token, call.layer);
    flight.weights.insert(flight.weights.end(), weights.begin(), weights.end());
  }
  flight.output.resize(flight.hidden.size());
  moetier_layer_call request{};
  request.size = sizeof request;
  request.layer = block;
  request.rows = call.rows;
  request.top_k = rows.top_k;
  request.hidden = rows.hidden_size;
  request.hidden_type = MOETIER_F32;
  request.hidden_rows = flight.hidden.data();
  request.experts = flight.experts.data();
  request.weights = flight.weights.data();
  request.output = flight.output.data();
  moetier_error error{};
  if (moetier_lane_submit(lane_, &request, &flight.ticket, &error) != MOETIER_OK) {
    return LaneError(error);
  }
  return Ok();
}

Status ReplayLane::Await(Flight& flight, const OnReply& on_reply) {
  moetier_layer_info info{};
  moetier_error error{};
  const moetier_status status = moetier_lane_wait(lane_, flight.ticket, &info, &error);
  if (status != MOETIER_OK && status != MOETIER_FAULT) return LaneError(error);
  on_reply(flight.call, status == MOETIER_OK ? ReplyOf(flight.output, info) : ReplyOf(error));
  return Ok();
}

Status ReplayLane::Run(const GoldenRows& rows, std::span<const uint32_t> blocks,
                       std::span<const ReplayCall> calls, const OnReply& on_reply) {
  std::deque<Flight> flights;  // a deque keeps the addresses that the lane was given
  const uint32_t most = moetier_lane_grant(lane_)->max_in_flight;
  for (const ReplayCall& call : calls) {
    if (flights.size() == most) {
      RETURN_IF_ERROR(Await(flights.front(), on_reply));
      flights.pop_front();
    }
    Flight& flight = flights.emplace_back();
    flight.call = call;
    RETURN_IF_ERROR(Submit(rows, blocks[call.layer], flight));
  }
  for (; !flights.empty(); flights.pop_front()) RETURN_IF_ERROR(Await(flights.front(), on_reply));
  return Ok();
}

}  // namespace moetier
