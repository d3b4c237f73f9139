#include "daemon/scheduling/layer_planner.h"

#include <algorithm>

#include "base/check.h"

namespace moetier {
namespace {

bool Arrives(const PlanPick& pick) {
  return pick.place == PickPlace::kNvme || pick.place == PickPlace::kInFlight;
}

PlanJob JobOf(const PlanPick& pick, const CostSource& costs) {
  const bool arrives = Arrives(pick);
  return {
      .cpu = costs.Expert(LaneKind::kCpu, pick.kind, pick.rows).count(),
      .device = costs.Expert(arrives ? LaneKind::kGpu : LaneKind::kZeroCopy, pick.kind, pick.rows)
                    .count(),
      .arrival = arrives ? pick.arrival.count() : 0,
      .push = arrives ? costs.Push(pick.kind).count() : 0,
      .pushed = arrives};
}

}  // namespace

LayerPlanner::LayerPlanner(size_t max_picks) : max_picks_(max_picks) {
  lanes_.reserve(max_picks);
  job_pick_.reserve(max_picks);
  jobs_.reserve(max_picks);
}

LayerPlan LayerPlanner::Plan(std::span<const PlanPick> picks, const CostSource& costs,
                             const Rules& rules) {
  Prepare(picks, costs, rules);
  const size_t searched = std::min(jobs_.size(), PlanSearch::kMaxJobs);
  const size_t first = jobs_.size() - searched;
  PlaceGreedily(0, first);
  const LaneClocks start = clocks_;
  const bool zero_copy_used = zero_copy_used_;
  PlaceGreedily(first, jobs_.size());
  const auto found =
      search_.Find(std::span(jobs_).subspan(first), start, terms_, zero_copy_used, clocks_.end());
  if (!found) return Planned();
  for (size_t i = 0; i < searched; ++i) {
    const PickLane device = jobs_[first + i].pushed ? PickLane::kPush : PickLane::kZeroCopy;
    lanes_[job_pick_[first + i]] = (found->on_device >> i & 1) != 0 ? device : PickLane::kCpu;
  }
  clocks_ = found->clocks;
  return Planned();
}

LayerPlan LayerPlanner::PlanGreedy(std::span<const PlanPick> picks, const CostSource& costs,
                                   const Rules& rules) {
  Prepare(picks, costs, rules);
  PlaceGreedily(0, jobs_.size());
  return Planned();
}

LayerPlan LayerPlanner::PlanSimplest(std::span<const PlanPick> picks, const CostSource& costs,
                                     const Rules& rules) {
  Prepare(picks, costs, rules);
  for (size_t i = 0; i < jobs_.size(); ++i) {
    const PickLane device = jobs_[i].pushed ? PickLane::kPush : PickLane::kZeroCopy;
    const bool on_device = jobs_[i].cpu == kNoLane.count() && jobs_[i].device != kNoLane.count();
    Run(i, on_device ? device : PickLane::kCpu);
  }
  return Planned();
}

void LayerPlanner::Prepare(std::span<const PlanPick> picks, const CostSource& costs,
                           const Rules& rules) {
  MOE_CHECK(picks.size() <= max_picks_, "{} picks for a planner of {}", picks.size(), max_picks_);
  lanes_.resize(picks.size());
  job_pick_.clear();
  jobs_.clear();
  masked_ = 0;
  zero_copy_used_ = false;
  for (uint32_t i = 0; i < picks.size(); ++i) {
    if (picks[i].place == PickPlace::kVram) {
      lanes_[i] = PickLane::kGpu;
    } else if (Arrives(picks[i]) && rules.misses == MissRule::kMask) {
      lanes_[i] = PickLane::kMasked;
      ++masked_;
    } else {
      job_pick_.push_back(i);
    }
  }
  OrderJobs(picks);
  for (const uint32_t pick : job_pick_) jobs_.push_back(JobOf(picks[pick], costs));
  OpenLanes(picks, costs, rules.charging);
}

// What is in RAM first, the most rows first; then what arrives, the earliest first. Equal ones keep
// the picks' order, so that a plan does not depend on the library's sort.
void LayerPlanner::OrderJobs(std::span<const PlanPick> picks) {
  const auto before = [&](uint32_t left, uint32_t right) {
    const PlanPick& a = picks[left];
    const PlanPick& b = picks[right];
    if (Arrives(a) != Arrives(b)) return Arrives(b);
    if (Arrives(a) && a.arrival != b.arrival) return a.arrival < b.arrival;
    if (!Arrives(a) && a.rows != b.rows) return a.rows > b.rows;
    return left < right;
  };
  constexpr size_t kFewPicks = 16;  // by insertion: a decode call's picks are nearly in order
  if (job_pick_.size() > kFewPicks) {
    std::sort(job_pick_.begin(), job_pick_.end(), before);
    return;
  }
  for (size_t i = 1; i < job_pick_.size(); ++i) {
    const uint32_t pick = job_pick_[i];
    size_t place = i;
    for (; place > 0 && before(pick, job_pick_[place - 1]); --place) {
      job_pick_[place] = job_pick_[place - 1];
    }
    job_pick_[place] = pick;
  }
}

void LayerPlanner::OpenLanes(std::span<const PlanPick> picks, const CostSource& costs,
                             Charging charging) {
  double in_vram = 0;
  size_t not_in_vram = 0;
  for (const PlanPick& pick : picks) {
    if (pick.place == PickPlace::kVram) {
      in_vram += costs.Expert(LaneKind::kGpu, pick.kind, pick.rows).count();
    } else {
      ++not_in_vram;
    }
  }
  const double device = costs.HandOff(LaneKind::kGpu).count();
  const double cpu = costs.HandOff(LaneKind::kCpu).count();
  clocks_ = {};
  if (not_in_vram < picks.size()) clocks_.device = device + in_vram;
  if (charging == Charging::kAsUsed) {
    terms_ = {.cpu_opening = cpu,
              .device_opening = device,
              .zero_copy_opening = costs.HandOff(LaneKind::kZeroCopy).count(),
              .copies_queue = true};
  } else {
    terms_ = {.cpu_opening = 0, .device_opening = 0, .zero_copy_opening = 0, .copies_queue = false};
    if (not_in_vram > 0) clocks_.cpu = cpu;
  }
}

void LayerPlanner::PlaceGreedily(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    LaneClocks on_cpu = clocks_;
    on_cpu.RunOnCpu(jobs_[i], terms_);
    LaneClocks on_device = clocks_;
    on_device.RunOnDevice(jobs_[i], terms_, !zero_copy_used_);
    const PickLane device = jobs_[i].pushed ? PickLane::kPush : PickLane::kZeroCopy;
    Run(i, on_cpu.end() <= on_device.end() ? PickLane::kCpu : device);
  }
}

void LayerPlanner::Run(size_t job, PickLane lane) {
  lanes_[job_pick_[job]] = lane;
  if (lane == PickLane::kCpu) {
    clocks_.RunOnCpu(jobs_[job], terms_);
  } else {
    clocks_.RunOnDevice(jobs_[job], terms_, !zero_copy_used_);
    if (lane == PickLane::kZeroCopy) zero_copy_used_ = true;
  }
}

LayerPlan LayerPlanner::Planned() const {
  return {.lanes = lanes_,
          .cpu = PlanTime(clocks_.cpu),
          .device = PlanTime(clocks_.device),
          .masked = masked_};
}

}  // namespace moetier
