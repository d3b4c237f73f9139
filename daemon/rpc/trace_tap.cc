#include "daemon/rpc/trace_tap.h"

#include <chrono>
#include <utility>

#include "daemon/rpc/layer_messages.h"

namespace moetier {

RouteTap::Next TraceTap::OnAnswered(const LayerCall& call, const LayerOutput& output) {
  const MutexLock lock(mu_);
  if (closed_) return Next::kNoMore;
  if (model_ && call.model != *model_) return Next::kMore;
  const size_t picks = kRecordPicks + call.experts.size();
  if (picks_ + picks > kMostPicks) {
    ++lost_;
    return Next::kMore;
  }
  picks_ += picks;
  v1::TraceRecord& record = records_.emplace_back();
  record.set_time_us(static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(clock_.Now() - start_).count()));
  record.set_model(Raw(call.model));
  record.set_session(Raw(call.session));
  record.set_layer(Raw(call.layer));
  record.set_rows(call.rows);
  record.set_top_k(call.top_k);
  record.mutable_experts()->Assign(call.experts.begin(), call.experts.end());
  *record.mutable_timing() = ToProto(output.timing);
  record.set_hits(output.hits);
  record.set_in_flight(output.in_flight);
  record.set_misses(output.misses);
  record.set_lost(std::exchange(lost_, 0));
  return Next::kMore;
}

std::optional<v1::TraceRecord> TraceTap::Take() {
  const MutexLock lock(mu_);
  if (records_.empty()) {
    if (lost_ == 0) return std::nullopt;
    v1::TraceRecord last;
    last.set_lost(std::exchange(lost_, 0));
    return last;
  }
  v1::TraceRecord record = std::move(records_.front());
  records_.pop_front();
  picks_ -= kRecordPicks + static_cast<size_t>(record.experts_size());
  return record;
}

bool TraceTap::closed() {
  const MutexLock lock(mu_);
  return closed_;
}

void TraceTap::Close() {
  const MutexLock lock(mu_);
  closed_ = true;
  records_.clear();
  picks_ = 0;
}

}  // namespace moetier
