#include "daemon/scheduling/model_planning.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "tests/support/synthetic_model.h"

namespace moetier {
namespace {

using std::chrono::microseconds;
using testing::SyntheticModel;

// Ten times the CPU's rate in its own memory, a link of a quarter of it.
DeviceDescription Card() {
  return {.name = "card",
          .what = "emulated",
          .budget = 1_GiB,
          .memory_rate = 600e9,
          .link_rate = 15e9,
          .copy_latency = microseconds(0),
          .hand_off = microseconds(0)};
}

// Experts of 1.5 MiB each, so that hand-offs hardly count.
const SyntheticModel& Model() {
  static const SyntheticModel model({.experts = 8, .hidden = 512, .ffn = 1024});
  return model;
}

std::vector<PlanPick> Picks(PickPlace place, size_t count) {
  return std::vector<PlanPick>(count, PlanPick{.place = place, .kind = ExpertKind{0}});
}

size_t CountOf(std::span<const PickLane> lanes, PickLane lane) {
  return static_cast<size_t>(std::ranges::count(lanes, lane));
}

}  // namespace

TEST_CASE("ModelPlanning: what is in RAM is shared out between CPU and link by their rates",
          "[scheduling]") {
  ModelPlanning planning(Model().geometry(), Card(), {});
  std::vector<PlanPick> picks = Picks(PickPlace::kRam, 5);
  const ModelPlanning::Choice choice = planning.Place(picks, ModelPlanning::Call::kOther, {});
  CHECK(CountOf(choice.lanes, PickLane::kCpu) == 4);
  CHECK(CountOf(choice.lanes, PickLane::kZeroCopy) == 1);
  CHECK_FALSE(choice.judged);
}

TEST_CASE("ModelPlanning: a lane that is measured to be slow is left alone", "[scheduling]") {
  ModelPlanning planning(Model().geometry(), Card(), {});
  const std::vector<LaneCosts::Part> parts = {{.kind = ExpertKind{0}, .rows = 1}};
  for (int i = 0; i < 40; ++i) {
    planning.ObserveDevice(LaneKind::kZeroCopy, parts, std::chrono::milliseconds(20));
  }
  std::vector<PlanPick> picks = Picks(PickPlace::kRam, 5);
  const ModelPlanning::Choice choice = planning.Place(picks, ModelPlanning::Call::kOther, {});
  CHECK(CountOf(choice.lanes, PickLane::kCpu) == 5);
}

TEST_CASE("ModelPlanning: without slots on the device nothing is pushed there", "[scheduling]") {
  ModelPlanning planning(Model().geometry(), Card(), {.gpu = false});
  std::vector<PlanPick> picks = Picks(PickPlace::kNvme, 8);
  const ModelPlanning::Choice choice = planning.Place(picks, ModelPlanning::Call::kOther, {});
  CHECK(CountOf(choice.lanes, PickLane::kCpu) == 8);
}

TEST_CASE("ModelPlanning: a device that does not reach RAM computes nothing from there",
          "[scheduling]") {
  ModelPlanning planning(Model().geometry(), Card(), {.zero_copy = false});
  const std::vector<LaneCosts::Part> parts(1, {.kind = ExpertKind{0}, .rows = 1});
  for (int i = 0; i < 40; ++i) {
    planning.Observe(LaneKind::kCpu, parts, std::chrono::milliseconds(20));
  }
  std::vector<PlanPick> picks = Picks(PickPlace::kRam, 5);
  const ModelPlanning::Choice choice = planning.Place(picks, ModelPlanning::Call::kOther, {});
  CHECK(CountOf(choice.lanes, PickLane::kCpu) == 5);
}

TEST_CASE("ModelPlanning: reads arrive one after another, and after those of layers before",
          "[scheduling]") {
  ModelPlanning planning(Model().geometry(), Card(), {});
  const TimePoint begin = TimePoint{} + std::chrono::hours(1);
  std::vector<PlanPick> first = Picks(PickPlace::kNvme, 3);
  planning.Place(first, ModelPlanning::Call::kOther, begin);
  CHECK(first[0].arrival.count() > 0);
  CHECK(first[1].arrival > first[0].arrival);
  std::vector<PlanPick> second = Picks(PickPlace::kNvme, 2);
  second[0].place = PickPlace::kInFlight;
  planning.Place(second, ModelPlanning::Call::kOther, begin);
  CHECK(second[0].arrival == first[2].arrival);
  CHECK(second[1].arrival > second[0].arrival);
  std::vector<PlanPick> later = Picks(PickPlace::kInFlight, 1);
  planning.Place(later, ModelPlanning::Call::kOther, begin + std::chrono::seconds(1));
  CHECK(later[0].arrival.count() == 0);
}

TEST_CASE("ModelPlanning: calls in which planning makes no difference do not judge it",
          "[scheduling]") {
  ModelPlanning planning(Model().geometry(), Card(), {});
  std::vector<PlanPick> in_vram = Picks(PickPlace::kVram, 4);
  CHECK_FALSE(planning.Place(in_vram, ModelPlanning::Call::kDecode, {}).judged);
  std::vector<PlanPick> in_ram = Picks(PickPlace::kRam, 5);
  CHECK(planning.Place(in_ram, ModelPlanning::Call::kDecode, {}).judged);
}

TEST_CASE("ModelPlanning: when planned calls take longer, what is in RAM runs on the CPU",
          "[scheduling]") {
  ModelPlanning planning(Model().geometry(), Card(), {});
  bool changed = false;
  for (int call = 0; call < 5000 && !changed; ++call) {
    std::vector<PlanPick> picks = Picks(PickPlace::kRam, 5);
    const ModelPlanning::Choice choice = planning.Place(picks, ModelPlanning::Call::kDecode, {});
    const bool planned = CountOf(choice.lanes, PickLane::kZeroCopy) > 0;
    changed = planning.Took(microseconds(planned ? 130 : 100));
  }
  REQUIRE(changed);
  CHECK(planning.check().choice() == PlanArm::kSimplest);
  std::vector<PlanPick> picks = Picks(PickPlace::kRam, 5);
  CHECK(CountOf(planning.Place(picks, ModelPlanning::Call::kOther, {}).lanes, PickLane::kCpu) == 5);
}

}  // namespace moetier
