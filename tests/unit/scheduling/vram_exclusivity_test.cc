#include <atomic>
#include <catch2/catch.hpp>
#include <future>

#include "tests/support/device_bench.h"

namespace moetier {
namespace {

using testing::DeviceBench;

ModelPool VramOf(ModelId model) { return {model, kDevicePool}; }

// The CPU computes it from RAM, after which it enters VRAM.
void Enter(DeviceBench& bench, uint16_t expert, uint16_t layer = 1) {
  LayerCall call = bench.Pick(layer, {expert});
  call.forced_lane = Raw(LaneKind::kCpu);
  bench.Run(call);
  bench.Settle();
}

ExpertKey KeyOf(const DeviceBench& bench, uint16_t expert) {
  return {bench.id, LayerIndex{1}, ExpertIndex{expert}};
}

// Slots in VRAM by size class.
std::vector<uint32_t> SlotsIn(DeviceBench& bench) {
  std::vector<uint32_t> slots;
  bench.executor.WithModel(bench.id, [&](const LoadedModel& model) {
    for (size_t i = 0; i < model.vram->class_count(); ++i) {
      slots.push_back(model.vram->ledger(SizeClass{static_cast<uint8_t>(i)}).slot_count());
    }
  });
  return slots;
}

}  // namespace

TEST_CASE("VRAM: what leaves it while RAM still holds it is kept by RAM", "[scheduling]") {
  DeviceBench bench({.ram = 100, .vram = 12.5});  // two slots
  REQUIRE(bench.executor.Pin({KeyOf(bench, 0)}).has_value());
  for (const uint16_t expert : {uint16_t{0}, uint16_t{1}, uint16_t{2}}) Enter(bench, expert);
  REQUIRE_FALSE(bench.InVram(1, 0));
  REQUIRE(bench.InRam(1, 0));
  const uint64_t reads = bench.reader.stats().reads;
  bench.executor.Unpin({KeyOf(bench, 0)});
  CHECK(bench.InRam(1, 0));
  CHECK(bench.VramCounters().dropped_victims == 0);
  CHECK(bench.VramCounters().written_back == 0);
  CHECK(bench.Run(bench.Pick(1, {0})).misses == 0);
  CHECK(bench.reader.stats().reads == reads);
}

TEST_CASE("VRAM: what a lost device had while RAM held it is kept by RAM", "[scheduling]") {
  DeviceBench bench({.ram = 100, .vram = 25});
  REQUIRE(bench.executor.Pin({KeyOf(bench, 0)}).has_value());
  Enter(bench, 0);
  REQUIRE(bench.InVram(1, 0));
  bench.device.Lose("for the test");
  REQUIRE_FALSE(bench.InVram(1, 0));
  bench.executor.Unpin({KeyOf(bench, 0)});
  CHECK(bench.InRam(1, 0));
}

TEST_CASE("VRAM: experts in it count as resident where guesses are asked for", "[scheduling]") {
  DeviceBench bench(
      {.ram = 100, .vram = 25, .prefetch = {.enabled = true, .router = false, .history = true}});
  const auto guesses = [&] {
    uint64_t count = 0;
    bench.executor.Inspect([&](const LayerExecutor::View& view) {
      count = view.prefetcher.counts(GuessSource::kHistory).guesses;
    });
    return count;
  };
  const auto token = [&] {
    for (const uint16_t layer : {uint16_t{1}, uint16_t{2}, uint16_t{4}}) {
      LayerCall call = bench.Pick(layer, {0, 1});
      call.session = SessionId{5};
      bench.Run(call);
      bench.Settle();  // what moves between RAM and VRAM is in neither
    }
  };
  token();
  token();
  REQUIRE(guesses() > 0);
  for (const uint16_t layer : {uint16_t{1}, uint16_t{2}, uint16_t{4}}) {
    for (uint16_t expert = 0; expert < 8; ++expert) Enter(bench, expert, layer);
  }
  token();  // the guesses of the calls before
  uint32_t in_vram = 0;
  for (const uint16_t layer : {uint16_t{1}, uint16_t{2}, uint16_t{4}}) {
    for (uint16_t expert = 0; expert < 8; ++expert) {
      in_vram += bench.InVram(layer, expert) ? 1 : 0;
      REQUIRE((bench.InVram(layer, expert) || bench.InRam(layer, expert)));
    }
  }
  REQUIRE(in_vram > 0);
  bench.Settle();
  const uint64_t before = guesses();
  token();
  token();
  CHECK(guesses() == before);
}

TEST_CASE("VRAM: what is in a slot that retires goes to RAM before the slot's memory goes",
          "[scheduling]") {
  std::promise<void> go_on;
  std::shared_future<void> released = go_on.get_future().share();
  std::atomic<bool> blocks{false};
  DeviceBench bench({.ram = 100, .vram = 12.5, .wait_until = [&](TimePoint) {
                       if (blocks) released.wait();
                     }});
  Enter(bench, 0);
  Enter(bench, 1);
  const uint64_t reads = bench.reader.stats().reads;
  blocks = true;
  REQUIRE(bench.executor.LimitSlots(VramOf(bench.id), {1, 1}).has_value());
  const SlotUse busy = bench.executor.TakeRetired(VramOf(bench.id));
  CHECK(busy.leaving == 1);
  CHECK(busy.active == std::vector<uint32_t>{1, 1});
  CHECK(busy.retired.empty());
  CHECK_FALSE(bench.InVram(1, 1));
  go_on.set_value();
  bench.Settle();
  const SlotUse done = bench.executor.TakeRetired(VramOf(bench.id));
  CHECK(done.leaving == 0);
  CHECK(done.retired == std::vector<std::pair<SizeClass, SlotIndex>>{{SizeClass{0}, SlotIndex{1}}});
  CHECK(bench.InRam(1, 1));
  CHECK(bench.InVram(1, 0));
  CHECK(bench.VramCounters().written_back == 1);
  CHECK(bench.Run(bench.Pick(1, {0, 1})).misses == 0);
  CHECK(bench.reader.stats().reads == reads);
}

TEST_CASE("VRAM: many slots that retire at once leave few experts to the drive", "[scheduling]") {
  DeviceBench bench({.ram = 100, .vram = 50});  // eight slots of blk.1's size
  for (uint16_t expert = 0; expert < 8; ++expert) Enter(bench, expert);
  REQUIRE(SlotsIn(bench).front() == 8);
  REQUIRE(bench.executor.LimitSlots(VramOf(bench.id), {4, 1}).has_value());
  bench.Settle();
  CHECK(bench.VramCounters().written_back == 4);
  CHECK(bench.VramCounters().dropped_victims == 0);
  for (uint16_t expert = 0; expert < 8; ++expert) {
    CHECK(bench.InVram(1, expert) == (expert < 4));
    CHECK(bench.InRam(1, expert) == (expert >= 4));
  }
}

}  // namespace moetier
