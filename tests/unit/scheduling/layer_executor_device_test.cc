#include <array>
#include <catch2/catch.hpp>
#include <future>
#include <map>
#include <thread>

#include "tests/support/device_bench.h"
#include "tests/support/random.h"

namespace moetier {
namespace {

using testing::DeviceBench;

constexpr uint32_t kCpuLane = Raw(LaneKind::kCpu);
constexpr uint32_t kZeroCopyLane = Raw(LaneKind::kZeroCopy);
constexpr uint32_t kGpuLane = Raw(LaneKind::kGpu);

// Experts of a call by lane.
std::map<uint32_t, uint32_t> LanesOf(const LayerOutput& output) {
  std::map<uint32_t, uint32_t> lanes;
  for (const LaneCount& count : output.lanes) lanes[count.lane] += count.experts;
  return lanes;
}

LayerCall Forced(LayerCall call, uint32_t lane) {
  call.forced_lane = lane;
  return call;
}

void AwaitDeviceWork(DeviceBench& bench) {
  for (bool working = false; !working;) {
    bench.executor.Inspect([&](const LayerExecutor::View& view) {
      working = view.models.at(bench.id)->device_work > 0;
    });
  }
}

// A call whose run over RAM goes on until it is let go.
struct HeldRun {
  HeldRun() { AwaitDeviceWork(bench); }
  std::promise<void> go_on;
  DeviceBench bench{
      {.wait_until = [released = go_on.get_future().share()](TimePoint) { released.wait(); }}};
  std::future<Result<LayerOutput>> answer =
      bench.Submit(Forced(bench.Pick(1, {0, 1}), kZeroCopyLane));
};

// Calls of all layers, of one row and of many, several at once.
void RunMany(DeviceBench& bench, uint32_t count) {
  std::vector<LayerCall> calls;
  std::vector<std::future<Result<LayerOutput>>> answers;
  for (uint64_t seed = 0; seed < count; ++seed) {
    const uint16_t layer = std::array<uint16_t, 3>{1, 2, 4}[seed % 3];
    calls.push_back(bench.Call(layer, seed % 7 == 0 ? 30 : 1 + seed % 2, 1 + seed % 4, seed));
    answers.push_back(bench.Submit(calls.back()));
    if (seed % 5 == 4) answers.back().wait();
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    INFO("call " << i);
    const Result<LayerOutput> answer = answers[i].get();
    REQUIRE(answer.has_value());
    CHECK(answer->output == bench.model.Reference(calls[i]));
  }
}

}  // namespace

TEST_CASE("LayerExecutor: what was computed from RAM moves to VRAM and is computed there next",
          "[scheduling]") {
  DeviceBench bench({.ram = 100, .vram = 25});
  bench.Run(Forced(bench.Pick(1, {0, 1}), kCpuLane));
  bench.Settle();
  for (const uint16_t expert : {uint16_t{0}, uint16_t{1}}) {
    CHECK(bench.InVram(1, expert));
    CHECK_FALSE(bench.InRam(1, expert));
  }
  const LayerOutput again = bench.Run(bench.Pick(1, {1, 0}));
  CHECK(again.hits == 2);
  CHECK(LanesOf(again) == std::map<uint32_t, uint32_t>{{kGpuLane, 2}});
  CHECK(bench.Lane(LaneKind::kGpu).experts == 2);
  CHECK(bench.VramCounters().copies_in == 2);
}

TEST_CASE("LayerExecutor: a forced lane computes the call, with the same bits", "[scheduling]") {
  DeviceBench bench({.ram = 100, .vram = 25});
  for (const uint32_t lane : {kZeroCopyLane, kCpuLane, kGpuLane, kGpuLane, kZeroCopyLane}) {
    INFO("lane " << lane);
    const LayerOutput output = bench.Run(Forced(bench.Pick(2, {3, 5}), lane));
    CHECK(LanesOf(output) == std::map<uint32_t, uint32_t>{{lane, 2}});
    bench.Settle();
  }
}

TEST_CASE("LayerExecutor: a call forced to a GPU without slots runs on the CPU", "[scheduling]") {
  DeviceBench bench({.ram = 100, .vram = 0});
  const LayerOutput output = bench.Run(Forced(bench.Pick(2, {3, 5}), kGpuLane));
  CHECK(LanesOf(output) == std::map<uint32_t, uint32_t>{{kCpuLane, 2}});
}

TEST_CASE("LayerExecutor: by second touch an expert enters VRAM at its second use",
          "[scheduling]") {
  DeviceBench bench({.ram = 100, .vram = 25, .admission = VramAdmission::kSecondTouch});
  bench.Run(Forced(bench.Pick(1, {0}), kCpuLane));
  bench.Settle();
  CHECK_FALSE(bench.InVram(1, 0));
  bench.Run(Forced(bench.Pick(1, {0}), kCpuLane));
  bench.Settle();
  CHECK(bench.InVram(1, 0));
}

TEST_CASE("LayerExecutor: a request of many rows brings nothing into VRAM", "[scheduling]") {
  DeviceBench bench({.ram = 100, .vram = 25});
  bench.Run(Forced(bench.Call(1, 30, 4, 1), kCpuLane));
  bench.Settle();
  CHECK(bench.VramCounters().copies_in == 0);
}

TEST_CASE("LayerExecutor: an expert that leaves VRAM goes back to RAM", "[scheduling]") {
  DeviceBench bench({.ram = 100, .vram = 12.5});  // two slots
  for (const uint16_t expert : {uint16_t{0}, uint16_t{1}, uint16_t{2}}) {
    bench.Run(Forced(bench.Pick(1, {expert}), kCpuLane));
    bench.Settle();
  }
  CHECK(bench.VramCounters().written_back == 1);
  CHECK(bench.VramCounters().dropped_victims == 0);
  CHECK_FALSE(bench.InVram(1, 0));
  CHECK(bench.InRam(1, 0));
  CHECK(bench.reader.stats().reads == 3);
  const LayerOutput again = bench.Run(Forced(bench.Pick(1, {0}), kCpuLane));
  CHECK(again.hits == 1);
  CHECK(bench.reader.stats().reads == 3);
}

TEST_CASE("LayerExecutor: an expert that leaves VRAM is dropped where RAM has no place for it",
          "[scheduling]") {
  DeviceBench bench({.ram = 19, .vram = 12.5});  // two slots each
  bench.Run(Forced(bench.Pick(1, {0}), kCpuLane));
  bench.Settle();
  bench.Run(Forced(bench.Pick(1, {1}), kCpuLane));
  bench.Settle();
  // The call holds both slots of RAM when the first of its experts enters; not always when the
  // second does.
  bench.Run(Forced(bench.Pick(1, {2, 3}), kCpuLane));
  bench.Settle();
  CHECK(bench.VramCounters().dropped_victims >= 1);
  CHECK_FALSE(bench.InRam(1, 0));
  CHECK(bench.Run(bench.Pick(1, {0})).misses == 1);
}

TEST_CASE("LayerExecutor: a copy back to RAM that fails is made good from the drive",
          "[scheduling]") {
  DeviceBench bench({.ram = 100, .vram = 12.5});
  for (const uint16_t expert : {uint16_t{0}, uint16_t{1}}) {
    bench.Run(Forced(bench.Pick(1, {expert}), kCpuLane));
    bench.Settle();
  }
  bench.device.FailCopies(1);  // the first is the victim's
  bench.Run(Forced(bench.Pick(1, {2}), kCpuLane));
  bench.Settle();
  CHECK(bench.InVram(1, 2));
  CHECK(bench.Run(Forced(bench.Pick(1, {0}), kCpuLane)).misses == 0);
  CHECK(bench.reader.stats().reads == 4);
}

TEST_CASE("LayerExecutor: an expert whose copy fails stays in RAM and enters the next time",
          "[scheduling]") {
  DeviceBench bench({.ram = 100, .vram = 25});
  bench.device.FailCopies(1);
  bench.Run(Forced(bench.Pick(1, {0}), kCpuLane));
  bench.Settle();
  CHECK(bench.InRam(1, 0));
  CHECK_FALSE(bench.InVram(1, 0));
  CHECK(bench.VramCounters().failed_copies == 1);
  bench.Run(Forced(bench.Pick(1, {0}), kCpuLane));
  bench.Settle();
  CHECK(bench.InVram(1, 0));
}

TEST_CASE("LayerExecutor: a call whose push fails is computed by the CPU", "[scheduling]") {
  DeviceBench bench({.ram = 100, .vram = 25});
  bench.device.FailCopies(1);
  const LayerOutput output = bench.Run(Forced(bench.Pick(1, {0, 1}), kGpuLane));
  CHECK(LanesOf(output) == std::map<uint32_t, uint32_t>{{kCpuLane, 1}, {kGpuLane, 1}});
}

TEST_CASE("LayerExecutor: a pinned expert stays in RAM while VRAM has it too", "[scheduling]") {
  DeviceBench bench({.ram = 100, .vram = 25});
  const ExpertKey key{bench.id, LayerIndex{1}, ExpertIndex{0}};
  REQUIRE(bench.executor.Pin({key}).has_value());
  bench.Run(Forced(bench.Pick(1, {0}), kCpuLane));
  bench.Settle();
  CHECK(bench.InVram(1, 0));
  CHECK(bench.InRam(1, 0));
  bench.executor.Unpin({key});
  CHECK_FALSE(bench.InRam(1, 0));
}

TEST_CASE("LayerExecutor: the bits are the reference's whatever RAM and VRAM hold",
          "[scheduling]") {
  for (const double ram : {19.0, 25.0, 100.0}) {
    for (const double vram : {0.0, 10.0, 25.0, 100.0}) {
      for (const char* policy : {"lru", "heat:8"}) {
        INFO("ram " << ram << " %, vram " << vram << " %, " << policy);
        DeviceBench bench({.ram = ram, .vram = vram, .vram_policy = policy});
        RunMany(bench, 24);
      }
    }
  }
}

TEST_CASE("LayerExecutor: copies that take their time overlap calls and change no bit",
          "[scheduling]") {
  DeviceBench bench({.ram = 25, .vram = 25, .wait_until = [](TimePoint) {
                       std::this_thread::sleep_for(std::chrono::microseconds(300));
                     }});
  RunMany(bench, 60);
}

TEST_CASE("LayerExecutor: a device that is lost at any moment costs no call and no bit",
          "[scheduling]") {
  for (uint64_t lost_after = 1; lost_after <= 14; lost_after += 2) {
    INFO("lost after " << lost_after);
    DeviceBench bench({.ram = 25, .vram = 25, .lost_after = lost_after});
    RunMany(bench, 30);
    bench.Settle();
    bool lost = false;
    bench.executor.Inspect(
        [&](const LayerExecutor::View& view) { lost = view.device_lost.has_value(); });
    CHECK(lost);
    for (const uint16_t expert : {uint16_t{0}, uint16_t{1}}) CHECK_FALSE(bench.InVram(1, expert));
    const uint64_t before = bench.Lane(LaneKind::kGpu).experts;
    bench.Run(Forced(bench.Pick(1, {0, 1}), kGpuLane));
    CHECK(bench.Lane(LaneKind::kGpu).experts == before);
  }
}

TEST_CASE("LayerExecutor: whatever fails when, bits are right and nothing stays reserved",
          "[scheduling]") {
  constexpr std::array<const char*, 5> kPolicies = {"lru", "clock", "lfu:4:10", "heat:5", "static"};
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    DeviceBench::Options options;
    options.ram = 19 + random.Below(40);
    options.vram = 10 + random.Below(60);
    options.policy = kPolicies[random.Below(kPolicies.size())];
    options.vram_policy = kPolicies[random.Below(kPolicies.size())];
    options.admission = random.Percent(70) ? VramAdmission::kAlways : VramAdmission::kSecondTouch;
    options.lost_after = random.Percent(40) ? 1 + random.Below(120) : 0;
    DeviceBench bench(options);
    std::vector<LayerCall> calls;
    std::vector<std::future<Result<LayerOutput>>> answers;
    for (uint32_t i = 0; i < 50; ++i) {
      const uint16_t layer = std::array<uint16_t, 3>{1, 2, 4}[random.Below(3)];
      const uint32_t rows = random.Percent(10) ? 9 + random.Below(60) : random.Between(1, 3);
      LayerCall call = bench.Call(layer, rows, random.Between(1, 4), seed * 1000 + i);
      if (random.Percent(40)) call.forced_lane = random.Below(kLaneKinds);
      if (random.Percent(15)) bench.device.FailCopies(random.Between(1, 4));
      calls.push_back(call);
      answers.push_back(bench.Submit(std::move(call)));
      if (random.Percent(30)) answers.back().wait();
    }
    for (size_t i = 0; i < calls.size(); ++i) {
      INFO("call " << i);
      const Result<LayerOutput> answer = answers[i].get();
      REQUIRE(answer.has_value());
      REQUIRE(answer->output == bench.model.Reference(calls[i]));
    }
    bench.Settle();
    bench.executor.Inspect([&](const LayerExecutor::View& view) {
      const LoadedModel& model = *view.models.at(bench.id);
      for (uint8_t i = 0; i < 2; ++i) {
        const LedgerCounts ram = model.ledgers[i]->counts();
        const LedgerCounts vram = model.vram->ledger(SizeClass{i}).counts();
        CHECK(ram.reserved + ram.loading + ram.draining + ram.granted_waves + ram.waiting_waves ==
              0);
        CHECK(vram.reserved + vram.loading + vram.draining + vram.granted_waves +
                  vram.waiting_waves ==
              0);
      }
    });
  }
}

TEST_CASE("LayerExecutor: calls forced to different lanes do not merge", "[scheduling]") {
  DeviceBench bench({.ram = 100, .vram = 25});
  std::vector<std::future<Result<LayerOutput>>> answers;
  for (uint32_t i = 0; i < 30; ++i)
    answers.push_back(bench.Submit(Forced(bench.Pick(1, {4, 6}), i % 2)));
  for (uint32_t i = 0; i < 30; ++i) {
    const Result<LayerOutput> answer = answers[i].get();
    REQUIRE(answer.has_value());
    CHECK(LanesOf(*answer) == std::map<uint32_t, uint32_t>{{i % 2, 2}});
  }
}

TEST_CASE("LayerExecutor: at the deadline of a stop a run under way is awaited, its call is not",
          "[scheduling]") {
  HeldRun held;
  auto stopped = std::async(std::launch::async,
                            [&] { return held.bench.executor.StopBy(held.bench.clock.Now()); });
  REQUIRE(held.answer.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  CHECK(held.answer.get().error().reason == Reason::kDraining);
  CHECK(stopped.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
  held.go_on.set_value();
  REQUIRE(stopped.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  CHECK(stopped.get());
}

TEST_CASE("LayerExecutor: a stop that a device holds up ends, and says so", "[scheduling]") {
  HeldRun held;
  const Status stopped =
      held.bench.executor.StopBy(held.bench.clock.Now() - LayerExecutor::kStopsAfter);
  CHECK(held.answer.get().error().reason == Reason::kDraining);
  REQUIRE(!stopped);
  CHECK_THAT(stopped.error().message, Catch::StartsWith("work of device emulated0 (") &&
                                          Catch::EndsWith(" copies and runs) has not ended"));
  // Whoever asks later does not wait longer.
  CHECK_FALSE(held.bench.executor.StopBy(held.bench.clock.Now() + std::chrono::hours(1)));
  held.go_on.set_value();
  held.bench.executor.Stop();  // joins, or the test's time is up
}

TEST_CASE("LayerExecutor: a model is handed back when its copies have ended", "[scheduling]") {
  DeviceBench bench({.ram = 100, .vram = 25, .wait_until = [](TimePoint) {
                       std::this_thread::sleep_for(std::chrono::milliseconds(2));
                     }});
  auto answer = bench.Submit(Forced(bench.Pick(1, {0, 1, 2}), kCpuLane));
  const std::unique_ptr<LoadedModel> removed = bench.executor.RemoveModel(bench.id).value();
  REQUIRE(removed);
  CHECK(removed->device_work == 0);
  CHECK(answer.get().has_value());
}

}  // namespace moetier
