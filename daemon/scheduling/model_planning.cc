#include "daemon/scheduling/model_planning.h"

#include <algorithm>

namespace moetier {
namespace {

// What a good homelab box does; runs correct the lanes' figures, those of the drive stay.
constexpr double kCpuRate = 60e9;   // bytes a second of two channels of DDR5
constexpr double kDriveRate = 6e9;  // of one NVMe drive at a deep queue
constexpr double kLoneRate = 3e9;   // at queue depth 1
constexpr PlanTime kDriveLatency{0.08};
constexpr PlanTime kCpuHandOff{0.002};  // the lane's barrier
constexpr double kFurtherRow = 0.05;    // of the first: the bytes are read once

PlanTime TimeOf(double bytes, double rate) { return PlanTime(bytes / rate * 1e3); }

PlanTime TimeOf(std::chrono::nanoseconds time) { return time; }

RecordedCosts Records(const ModelGeometry& geometry, const DeviceDescription& device,
                      ModelPlanning::Lanes lanes) {
  RecordedCosts::Record record;
  record.hand_off[Raw(LaneKind::kCpu)] = kCpuHandOff;
  record.hand_off[Raw(LaneKind::kGpu)] = TimeOf(device.hand_off);
  for (const SizeClassGeometry& size_class : geometry.size_classes) {
    const auto bytes = static_cast<double>(size_class.slot_bytes.count());
    RecordedCosts::KindRecord kind;
    const auto set = [&](LaneKind lane, double rate) {
      const PlanTime first = TimeOf(bytes, rate);
      kind.lanes[Raw(lane)] = {.first_row = first, .further_row = first * kFurtherRow};
    };
    set(LaneKind::kCpu, kCpuRate);
    if (lanes.zero_copy) set(LaneKind::kZeroCopy, device.link_rate);
    if (lanes.gpu) set(LaneKind::kGpu, device.memory_rate);
    kind.push = TimeOf(device.copy_latency) + TimeOf(bytes, device.link_rate);
    record.kinds.push_back(kind);
  }
  return RecordedCosts(std::move(record));
}

ReadForecast::Options DriveOf(const ModelGeometry& geometry) {
  double largest = 0;
  for (const SizeClassGeometry& size_class : geometry.size_classes) {
    largest = std::max(largest, static_cast<double>(size_class.slot_bytes.count()));
  }
  return {.deep_service = TimeOf(largest, kDriveRate),
          .lone_service = TimeOf(largest, kLoneRate),
          .latency = kDriveLatency};
}

size_t MostExperts(const ModelGeometry& geometry) {
  uint32_t most = 0;
  for (const LayerGeometry& layer : geometry.layers) most = std::max(most, layer.experts);
  return most;
}

}  // namespace

ModelPlanning::ModelPlanning(const ModelGeometry& geometry, const DeviceDescription& device,
                             Lanes lanes)
    : planner_(MostExperts(geometry)),
      costs_(Records(geometry, device, lanes)),
      drive_(DriveOf(geometry)),
      check_(
          {.calls_a_block = std::max<uint32_t>(1, static_cast<uint32_t>(geometry.layers.size()))}) {
  planned_.reserve(MostExperts(geometry));
  landed_.reserve(MostExperts(geometry));
}

ModelPlanning::Choice ModelPlanning::Place(std::span<PlanPick> picks, Call call, TimePoint now) {
  if (begin_ == TimePoint{}) begin_ = now;
  const PlanTime at = now - begin_;
  const auto reads =
      static_cast<size_t>(std::ranges::count(picks, PickPlace::kNvme, &PlanPick::place));
  // Reads under way land before those of this layer; which of them first is the drive's secret.
  const PlanTime under_way = std::max(drive_.free_at() - at, PlanTime(0));
  landed_.assign(reads, PlanTime(0));
  if (reads > 0) drive_.Read(at, landed_);
  size_t read = 0;
  for (PlanPick& pick : picks) {
    if (pick.place == PickPlace::kNvme) pick.arrival = landed_[read++] - at;
    if (pick.place == PickPlace::kInFlight) pick.arrival = under_way;
  }
  const LayerPlanner::Rules rules;
  if (call == Call::kOther) {
    const bool simplest = check_.choice() == PlanArm::kSimplest;
    return {.lanes = (simplest ? planner_.PlanSimplest(picks, costs_, rules)
                               : planner_.Plan(picks, costs_, rules))
                         .lanes};
  }
  const std::span<const PickLane> planned = planner_.Plan(picks, costs_, rules).lanes;
  planned_.assign(planned.begin(), planned.end());
  const std::span<const PickLane> simplest = planner_.PlanSimplest(picks, costs_, rules).lanes;
  const bool differ = !std::ranges::equal(planned_, simplest);
  if (differ && check_.arm() == PlanArm::kSimplest) return {.lanes = simplest, .judged = true};
  return {.lanes = planned_, .judged = differ};
}

std::span<const PickLane> ModelPlanning::Foresee(std::span<PlanPick> picks, TimePoint now) {
  const ReadForecast before = drive_;
  const Choice choice = Place(picks, Call::kOther, now);
  drive_ = before;  // nothing is read for them
  return choice.lanes;
}

void ModelPlanning::ObserveDevice(LaneKind lane, std::span<const LaneCosts::Part> parts,
                                  std::chrono::nanoseconds busy) {
  const auto hand_off = std::chrono::duration_cast<std::chrono::nanoseconds>(costs_.HandOff(lane));
  costs_.Observe(lane, parts, busy + hand_off);
}

}  // namespace moetier
