#include "daemon/scheduling/lane_costs.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <vector>

#include "tests/support/plan_oracle.h"

namespace moetier {
namespace {

constexpr ExpertKind kFirst{0};
constexpr ExpertKind kSecond{1};

// GLM's lanes for two kinds of expert.
RecordedCosts TwoKinds() {
  RecordedCosts::Record record = GlmRecord();
  record.kinds.push_back(record.kinds[0]);
  return RecordedCosts(record);
}

std::chrono::nanoseconds Took(PlanTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time);
}

// `runs` runs of one expert on the CPU that take hand-off and `factor` times the record.
void ObserveCpu(LaneCosts& costs, uint32_t runs, uint32_t rows, double factor,
                ExpertKind kind = kFirst) {
  const RecordedCosts records = TwoKinds();
  const PlanTime time =
      records.HandOff(LaneKind::kCpu) + records.Expert(LaneKind::kCpu, kind, rows) * factor;
  for (uint32_t i = 0; i < runs; ++i) {
    costs.Observe(LaneKind::kCpu, std::vector<LaneCosts::Part>{{kind, rows}}, Took(time));
  }
}

double CpuCost(const LaneCosts& costs, uint32_t rows, ExpertKind kind = kFirst) {
  return costs.Expert(LaneKind::kCpu, kind, rows).count();
}

TEST_CASE("RecordedCosts: an expert costs its first row and each further one", "[scheduling]") {
  const RecordedCosts records = TwoKinds();
  CHECK(records.Expert(LaneKind::kCpu, kFirst, 1).count() == Approx(0.104));
  CHECK(records.Expert(LaneKind::kCpu, kFirst, 4).count() == Approx(0.224));
  CHECK(records.HandOff(LaneKind::kGpu).count() == Approx(0.17));
  CHECK(records.Push(kFirst).count() == Approx(0.403151).margin(5e-7));
  const RecordedCosts none(RecordedCosts::Record{.hand_off = {}, .kinds = {{}}});
  CHECK(none.Expert(LaneKind::kZeroCopy, kFirst, 3) == kNoLane);
}

TEST_CASE("LaneCosts: they are the records' until a run completes", "[scheduling]") {
  const LaneCosts costs(TwoKinds());
  const RecordedCosts records = TwoKinds();
  for (const LaneKind lane : {LaneKind::kCpu, LaneKind::kZeroCopy, LaneKind::kGpu}) {
    CHECK(costs.HandOff(lane) == records.HandOff(lane));
    for (const uint32_t rows : {1u, 3u, 9u, 500u}) {
      CHECK(costs.Expert(lane, kSecond, rows) == records.Expert(lane, kSecond, rows));
    }
  }
  CHECK(costs.Push(kFirst) == records.Push(kFirst));
}

TEST_CASE("LaneCosts: rows fall into buckets of one, then of doubling width", "[scheduling]") {
  const std::vector<uint32_t> last{1, 2, 3, 4, 8, 16, 32};
  for (size_t bucket = 0; bucket < last.size(); ++bucket) {
    CHECK(LaneCosts::BucketOf(last[bucket]) == bucket);
    CHECK(LaneCosts::BucketOf(last[bucket] + 1) == bucket + 1);
  }
  CHECK(LaneCosts::BucketOf(100000) == LaneCosts::kBuckets - 1);
}

TEST_CASE("LaneCosts: the first run replaces the record, later ones average", "[scheduling]") {
  LaneCosts costs(TwoKinds());
  ObserveCpu(costs, 1, 1, 2.0);
  CHECK(CpuCost(costs, 1) == Approx(0.208).epsilon(1e-4));
  ObserveCpu(costs, 1, 1, 4.0);
  CHECK(CpuCost(costs, 1) > 0.208);
  CHECK(CpuCost(costs, 1) < 0.416);
  ObserveCpu(costs, 200, 1, 0.5);
  CHECK(CpuCost(costs, 1) == Approx(0.052).epsilon(0.01));
  CHECK(costs.runs(LaneKind::kCpu, kFirst, 0) == 202);
}

TEST_CASE("LaneCosts: a bucket without runs takes the nearest measured factor", "[scheduling]") {
  LaneCosts costs(TwoKinds());
  ObserveCpu(costs, 50, 2, 2.0);
  CHECK(CpuCost(costs, 1) == Approx(2 * 0.104).epsilon(1e-3));
  CHECK(CpuCost(costs, 64) == Approx(2 * (0.104 + 63 * 0.040)).epsilon(1e-3));
  ObserveCpu(costs, 50, 32, 3.0);
  CHECK(CpuCost(costs, 1) == Approx(2 * 0.104).epsilon(1e-3));
  CHECK(CpuCost(costs, 64) == Approx(3 * (0.104 + 63 * 0.040)).epsilon(1e-3));
  CHECK(CpuCost(costs, 2) == Approx(2 * 0.144).epsilon(1e-3));
}

TEST_CASE("LaneCosts: kinds and lanes do not touch each other", "[scheduling]") {
  LaneCosts costs(TwoKinds());
  ObserveCpu(costs, 50, 1, 2.0);
  CHECK(CpuCost(costs, 1, kSecond) == Approx(0.104));
  CHECK(costs.Expert(LaneKind::kGpu, kFirst, 1).count() == Approx(0.023));
  CHECK(costs.Expert(LaneKind::kZeroCopy, kFirst, 1).count() == Approx(0.38));
}

TEST_CASE("LaneCosts: runs of many experts settle on what their sums say", "[scheduling]") {
  LaneCosts costs(TwoKinds());
  const RecordedCosts records = TwoKinds();
  const std::vector<std::vector<LaneCosts::Part>> runs{
      {{kFirst, 1}, {kFirst, 1}, {kFirst, 1}, {kFirst, 4}},
      {{kFirst, 1}, {kFirst, 1}},
      {{kFirst, 4}, {kFirst, 4}, {kFirst, 1}},
  };
  // In truth one row costs 0.7 of the record and four rows 1.6.
  for (uint32_t i = 0; i < 3000; ++i) {
    const std::vector<LaneCosts::Part>& parts = runs[i % runs.size()];
    PlanTime time = records.HandOff(LaneKind::kCpu);
    for (const LaneCosts::Part& part : parts) {
      time += records.Expert(LaneKind::kCpu, part.kind, part.rows) * (part.rows == 1 ? 0.7 : 1.6);
    }
    costs.Observe(LaneKind::kCpu, parts, Took(time));
  }
  CHECK(CpuCost(costs, 1) == Approx(0.7 * 0.104).epsilon(0.03));
  CHECK(CpuCost(costs, 4) == Approx(1.6 * 0.224).epsilon(0.03));
  CHECK(costs.runs(LaneKind::kCpu, kFirst, 0) == 3000);  // one a run, not one an expert
}

TEST_CASE("LaneCosts: one run that was disturbed moves a settled cost by less than a fifth",
          "[scheduling]") {
  LaneCosts costs(TwoKinds());
  ObserveCpu(costs, 100, 1, 1.0);
  ObserveCpu(costs, 1, 1, 10000.0);
  CHECK(CpuCost(costs, 1) < 0.104 * 1.2);
  ObserveCpu(costs, 100, 1, 1.0);
  CHECK(CpuCost(costs, 1) == Approx(0.104).epsilon(0.01));
}

TEST_CASE("LaneCosts: what is no measurement is not counted", "[scheduling]") {
  RecordedCosts::Record record = GlmRecord();
  record.kinds[0].lanes[1] = {};  // no zero-copy
  LaneCosts costs{RecordedCosts(record)};
  const std::vector<LaneCosts::Part> one{{kFirst, 1}};
  costs.Observe(LaneKind::kCpu, {}, std::chrono::milliseconds(1));
  costs.Observe(LaneKind::kCpu, one, std::chrono::nanoseconds(0));
  costs.Observe(LaneKind::kCpu, one, std::chrono::nanoseconds(-5));
  costs.Observe(LaneKind::kZeroCopy, one, std::chrono::milliseconds(1));
  CHECK(costs.runs(LaneKind::kCpu, kFirst, 0) == 0);
  CHECK(costs.runs(LaneKind::kZeroCopy, kFirst, 0) == 0);
  CHECK(CpuCost(costs, 1) == Approx(0.104));
  CHECK(costs.Expert(LaneKind::kZeroCopy, kFirst, 1) == kNoLane);
}

}  // namespace
}  // namespace moetier
