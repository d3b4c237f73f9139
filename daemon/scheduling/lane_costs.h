#ifndef MOETIER_DAEMON_SCHEDULING_LANE_COSTS_H_
#define MOETIER_DAEMON_SCHEDULING_LANE_COSTS_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/scheduling/recorded_costs.h"

namespace moetier {

// What the lanes of one model really take: the records at first, then scaled by factors that
// completed runs correct, one per (lane, kind of expert, rows bucket). A bucket that has no runs
// yet takes the factor of the nearest bucket that has; a lane that the records lack stays kNoLane.
// Hand-offs and pushes are the records'.
// Threads: its owner's. Memory: all taken at creation.
class LaneCosts final : public CostSource {
 public:
  // Rows 1, 2, 3, 4, then up to 8, 16, 32, and more.
  static constexpr size_t kBuckets = 8;
  static size_t BucketOf(uint32_t rows);

  explicit LaneCosts(RecordedCosts records);

  // One expert of a run.
  struct Part {
    ExpertKind kind{};
    uint32_t rows = 1;
  };
  // The lane computed `parts` in one run, hand-off included. A run is wrong by one ratio: it counts
  // as that for each bucket it has parts in. The mean of the first 16 runs of a bucket, then a
  // running one in which a run counts 1/16; one run changes a settled factor by at most 3/16. Runs
  // of nothing, of no time and of lanes that do not exist are not counted.
  void Observe(LaneKind lane, std::span<const Part> parts, std::chrono::nanoseconds took);

  [[nodiscard]] PlanTime HandOff(LaneKind lane) const override { return records_.HandOff(lane); }
  [[nodiscard]] PlanTime Expert(LaneKind lane, ExpertKind kind, uint32_t rows) const override;
  [[nodiscard]] PlanTime Push(ExpertKind kind) const override { return records_.Push(kind); }

  // Runs that corrected the bucket.
  [[nodiscard]] uint64_t runs(LaneKind lane, ExpertKind kind, size_t bucket) const;
  [[nodiscard]] size_t kind_count() const { return records_.kind_count(); }

 private:
  struct Bucket {
    double factor = 1;   // of the record's cost
    double applied = 1;  // its own once measured, else the nearest measured one's
    uint64_t runs = 0;
    uint64_t last_run = 0;  // so that a run counts once
  };
  using Buckets = std::array<Bucket, kBuckets>;

  [[nodiscard]] size_t PlaceOf(LaneKind lane, ExpertKind kind) const;
  void Correct(Bucket& bucket, double ratio) const;
  // Lends measured factors to the buckets that have none.
  static void Spread(Buckets& buckets);

  RecordedCosts records_;
  std::vector<Buckets> buckets_;  // by lane and kind
  uint64_t run_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_LANE_COSTS_H_
