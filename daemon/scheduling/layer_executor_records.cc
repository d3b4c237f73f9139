// LayerExecutor's observers: the record of each run, and taps that see what was routed.

#include <algorithm>

#include "daemon/scheduling/layer_executor.h"

namespace moetier {

void LayerExecutor::Record(ActiveBatch& active, TimePoint now) {
  LayerRecord record;
  record.layer = active.batch.geometry().layer;
  record.calls = static_cast<uint32_t>(active.batch.calls().size());
  record.ended_by = active.ended_by;
  record.compute = active.computed;
  record.gpu = active.device.busy[Raw(LaneKind::kGpu)];
  record.zero_copy = active.device.busy[Raw(LaneKind::kZeroCopy)];
  record.combine = active.combined;
  record.total = now - active.started;
  record.plan = active.planned;
  record.read_wait = record.total - record.plan - record.compute - record.combine;
  for (const PendingCall& pending : active.batch.calls()) {
    record.rows += pending.call.rows;
    record.queue =
        std::max(record.queue, std::chrono::nanoseconds(active.started - pending.call.received));
    record.hits += pending.output.hits;
    record.in_flight += pending.output.in_flight;
    record.misses += pending.output.misses;
  }
  active.model.records.Put(record);
}

void LayerExecutor::AddTap(std::shared_ptr<RouteTap> tap) {
  mailbox_.Send(Control{[this, tap = std::move(tap)]() mutable {
    std::erase_if(taps_, [](const std::shared_ptr<RouteTap>& each) { return each->closed(); });
    taps_.push_back(tap);
  }});
}

void LayerExecutor::ShowTaps(const PendingCall& pending) {
  std::erase_if(taps_, [&](const std::shared_ptr<RouteTap>& tap) {
    return tap->OnAnswered(pending.call, pending.output) == RouteTap::Next::kNoMore;
  });
}

}  // namespace moetier
