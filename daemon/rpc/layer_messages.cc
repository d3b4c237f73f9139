#include "daemon/rpc/layer_messages.h"

namespace moetier {

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
  v1::Timing& timing = *result.mutable_timing();
  timing.set_queue_us(output.timing.queue_us);
  timing.set_plan_us(output.timing.plan_us);
  timing.set_read_wait_us(output.timing.read_wait_us);
  timing.set_compute_us(output.timing.compute_us);
  timing.set_combine_us(output.timing.combine_us);
  timing.set_total_us(output.timing.total_us);
  result.set_arithmetic(arithmetic);
  result.set_hits(output.hits);
  result.set_in_flight(output.in_flight);
  result.set_misses(output.misses);
}

}  // namespace moetier
