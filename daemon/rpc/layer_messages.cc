#include "daemon/rpc/layer_messages.h"

namespace moetier {

v1::Timing ToProto(const CallTiming& timing) {
  v1::Timing message;
  message.set_queue_us(timing.queue_us);
  message.set_plan_us(timing.plan_us);
  message.set_read_wait_us(timing.read_wait_us);
  message.set_compute_us(timing.compute_us);
  message.set_combine_us(timing.combine_us);
  message.set_total_us(timing.total_us);
  return message;
}

void FillResult(const LayerOutput& output, const std::string& arithmetic, v1::LayerResult& result) {
  // f32 little-endian is also the host's form (hidden_rows.cc asserts it).
  result.set_output(output.output.data(), output.output.size() * sizeof(float));
  for (const MaskedPick& masked : output.masked) {
    v1::MaskedPick& entry = *result.add_masked();
    entry.set_row(masked.row);
    entry.set_pick(masked.pick);
  }
  for (const LaneCount& lane : output.lanes) {
    v1::LaneCount& entry = *result.add_lanes();
    entry.set_lane(lane.lane);
    entry.set_experts(lane.experts);
  }
  *result.mutable_timing() = ToProto(output.timing);
  result.set_arithmetic(arithmetic);
  result.set_hits(output.hits);
  result.set_in_flight(output.in_flight);
  result.set_misses(output.misses);
}

}  // namespace moetier
