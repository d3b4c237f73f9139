#include "daemon/scheduling/lane_costs.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/ids.h"

namespace moetier {
namespace {

constexpr uint64_t kMeanOf = 16;  // runs; then a run counts 1/16
constexpr uint64_t kSettled = 4;  // runs; from then on one run is not believed beyond kLargestRatio
constexpr double kLargestRatio = 4;   // a preempted run takes as long as the other program likes
constexpr double kLeastWork = 0.125;  // of a run; what is left if the record's hand-off is too long
constexpr double kSmallestFactor = 1.0 / 4096;  // a record that is wrong by more is no record
constexpr double kLargestFactor = 4096;

}  // namespace

size_t LaneCosts::BucketOf(uint32_t rows) {
  if (rows <= 4) return rows == 0 ? 0 : rows - 1;
  return std::min<size_t>(static_cast<size_t>(std::bit_width(rows - 1)) + 1, kBuckets - 1);
}

LaneCosts::LaneCosts(RecordedCosts records)
    : records_(std::move(records)), buckets_(kLaneKinds * records_.kind_count()) {}

PlanTime LaneCosts::Expert(LaneKind lane, ExpertKind kind, uint32_t rows) const {
  return records_.Expert(lane, kind, rows) * buckets_[PlaceOf(lane, kind)][BucketOf(rows)].applied;
}

void LaneCosts::Observe(LaneKind lane, std::span<const Part> parts, std::chrono::nanoseconds took) {
  PlanTime expected{0};
  for (const Part& part : parts) expected += Expert(lane, part.kind, part.rows);
  if (took.count() <= 0 || expected.count() <= 0 || expected == kNoLane) return;
  const PlanTime worked = std::max(PlanTime(took) - HandOff(lane), kLeastWork * PlanTime(took));
  const double ratio = worked / expected;
  ++run_;
  for (const Part& part : parts) {
    Correct(buckets_[PlaceOf(lane, part.kind)][BucketOf(part.rows)], ratio);
  }
  for (const Part& part : parts) Spread(buckets_[PlaceOf(lane, part.kind)]);
}

uint64_t LaneCosts::runs(LaneKind lane, ExpertKind kind, size_t bucket) const {
  return buckets_[PlaceOf(lane, kind)][bucket].runs;
}

size_t LaneCosts::PlaceOf(LaneKind lane, ExpertKind kind) const {
  return Raw(lane) * records_.kind_count() + Raw(kind);
}

void LaneCosts::Correct(Bucket& bucket, double ratio) const {
  if (bucket.last_run == run_) return;
  bucket.last_run = run_;
  if (bucket.runs == 0) bucket.factor = bucket.applied;  // the ratio is that of the lent one
  ++bucket.runs;
  if (bucket.runs > kSettled) ratio = std::clamp(ratio, 1 / kLargestRatio, kLargestRatio);
  const double weight = 1.0 / static_cast<double>(std::min(bucket.runs, kMeanOf));
  bucket.factor =
      std::clamp(bucket.factor * (1 + weight * (ratio - 1)), kSmallestFactor, kLargestFactor);
}

void LaneCosts::Spread(Buckets& buckets) {
  for (size_t i = 0; i < kBuckets; ++i) {
    if (buckets[i].runs > 0) {
      buckets[i].applied = buckets[i].factor;
      continue;
    }
    for (size_t distance = 1; distance < kBuckets; ++distance) {
      if (i >= distance && buckets[i - distance].runs > 0) {
        buckets[i].applied = buckets[i - distance].factor;
        break;
      }
      if (i + distance < kBuckets && buckets[i + distance].runs > 0) {
        buckets[i].applied = buckets[i + distance].factor;
        break;
      }
    }
  }
}

}  // namespace moetier
