#include "daemon/scheduling/layer_record.h"

#include <algorithm>
#include <vector>

namespace moetier {
namespace {

double Microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

// The least of the sorted times that `share` of them do not exceed.
double Quantile(std::span<const std::chrono::nanoseconds> sorted, double share) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return Microseconds(sorted[static_cast<size_t>(share * last + 0.5)]);
}

uint32_t* CounterOf(LayerTimesSnapshot& times, EndedBy ended_by) {
  switch (ended_by) {
    case EndedBy::kRead:
      return &times.ended_by_read;
    case EndedBy::kCompute:
      return &times.ended_by_compute;
    case EndedBy::kDevice:
      return &times.ended_by_device;
  }
  return &times.ended_by_compute;
}

}  // namespace

void LayerRecordRing::Put(const LayerRecord& record) {
  records_[next_] = record;
  next_ = (next_ + 1) % kRecords;
  size_ = std::max(size_, next_ == 0 ? kRecords : next_);
}

LayerTimesSnapshot SummariseRecords(std::span<const LayerRecord> records) {
  LayerTimesSnapshot times;
  if (records.empty()) return times;
  std::vector<std::chrono::nanoseconds> totals;
  for (const LayerRecord& record : records) {
    ++times.runs;
    times.calls += record.calls;
    times.rows += record.rows;
    times.queue_us += Microseconds(record.queue);
    times.plan_us += Microseconds(record.plan);
    times.read_wait_us += Microseconds(record.read_wait);
    times.compute_us += Microseconds(record.compute);
    times.gpu_us += Microseconds(record.gpu);
    times.zero_copy_us += Microseconds(record.zero_copy);
    times.combine_us += Microseconds(record.combine);
    times.total_us += Microseconds(record.total);
    ++*CounterOf(times, record.ended_by);
    times.hits += record.hits;
    times.in_flight_hits += record.in_flight;
    times.misses += record.misses;
    totals.push_back(record.total);
  }
  for (double* const sum :
       {&times.queue_us, &times.plan_us, &times.read_wait_us, &times.compute_us, &times.gpu_us,
        &times.zero_copy_us, &times.combine_us, &times.total_us}) {
    *sum /= times.runs;
  }
  std::ranges::sort(totals);
  times.total_us_p50 = Quantile(totals, 0.50);
  times.total_us_p99 = Quantile(totals, 0.99);
  return times;
}

}  // namespace moetier
