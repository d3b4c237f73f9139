#include "tiers/device/emulated_device.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/device/device_probe.h"
#include "tiers/device/slot_granules.h"

namespace moetier {
namespace {

using testing::DeviceRecord;
using testing::DeviceRows;
using testing::FourSlots;
using testing::Pattern;
using testing::SyntheticModel;
using testing::WorkMemory;

// Time passes when the device waits, and only then.
class SteppedClock final : public Clock {
 public:
  [[nodiscard]] TimePoint Now() const override { return now_.load(); }
  void WaitUntil(TimePoint at) {
    if (at > now_.load()) now_.store(at);
  }

 private:
  std::atomic<TimePoint> now_{TimePoint{}};
};

// A device whose arena has FourSlots of the synthetic model.
class Bench {
 public:
  explicit Bench(EmulatedDevice::Options options = {})
      : device(Fill(std::move(options)), clock, kernels) {
    arena = device.Allocate(plan, "vram").value();
    device.Start(record);
  }
  ~Bench() { device.Stop(); }

  EmulatedDevice::Options Fill(EmulatedDevice::Options options) {
    if (options.budget == Bytes()) options.budget = 64_MiB;
    if (!options.wait_until) options.wait_until = [this](TimePoint at) { clock.WaitUntil(at); };
    return options;
  }
  // What EmulatedDevice::Options has by default is the host's time.
  static EmulatedDevice::Options Stepped() {
    EmulatedDevice::Options options;
    options.wait_until = nullptr;
    return options;
  }

  [[nodiscard]] DeviceAddress Slot(uint32_t slot) const {
    return arena->Slot(SizeClass{0}, SlotIndex{slot});
  }
  std::vector<std::byte> ReadBack(uint64_t id, uint32_t slot, size_t bytes) {
    std::vector<std::byte>& out = memory.Zeros(bytes);
    const size_t before = copies++;
    device.Copy(CopyId{id}, CopyOut{.from = Slot(slot), .to = out});
    CHECK(record.Copies(before + 1).back().outcome == DeviceOutcome::kDone);
    return out;
  }

  DeviceOutcome Compute(const DeviceTask& task) {
    device.Run(RunId{++runs}, {task});
    const std::vector<RunDone> done = record.Runs(runs);
    return done.size() == runs ? done.back().outcome : DeviceOutcome::kCancelled;
  }

  SteppedClock clock;
  SyntheticModel model{{.experts = 4, .hidden = 64, .ffn = 64}};
  kernels::ExpertKernels kernels =
      kernels::ExpertKernels::Create(kernels::InstructionSet::kScalar).value();
  DeviceRecord record;
  WorkMemory memory;
  EmulatedDevice device;
  const ArenaPlan plan = FourSlots(model);
  std::unique_ptr<DeviceArena> arena;
  size_t copies = 0;  // whose completions were awaited
  size_t runs = 0;
};

// Of this process's threads.
std::multiset<std::string> ThreadNames() {
  std::multiset<std::string> names;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "comm");
    std::string name;
    std::getline(file, name);
    names.insert(name);
  }
  return names;
}

}  // namespace

TEST_CASE("EmulatedDevice: the threads of several devices are told apart", "[device]") {
  EmulatedDevice::Options options = Bench::Stepped();
  const Bench first(options);
  options.number = 12;
  const Bench other(options);
  const std::multiset<std::string> names = ThreadNames();
  for (const char* name : {"device0-copy", "device0-run", "device0-link", "device12-copy",
                           "device12-run", "device12-link"}) {
    INFO(name);
    CHECK(names.count(name) == 1);
  }
}

TEST_CASE("EmulatedDevice: what is copied in comes out again, in the order of the copies",
          "[device]") {
  Bench bench(Bench::Stepped());
  auto& first = bench.memory.Keep(Pattern(4096, 1));
  auto& second = bench.memory.Keep(Pattern(4096, 77));
  auto& out = bench.memory.Zeros(4096);
  bench.device.Copy(CopyId{1}, CopyIn{.from = first, .to = bench.Slot(2)});
  bench.device.Copy(CopyId{2}, CopyOut{.from = bench.Slot(2), .to = out});
  bench.device.Copy(CopyId{3}, CopyIn{.from = second, .to = bench.Slot(2)});
  const std::vector<CopyDone> done = bench.record.Copies(3);
  REQUIRE(done.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(done[i].id == CopyId{i + 1});
    CHECK(done[i].outcome == DeviceOutcome::kDone);
  }
  CHECK(out == first);
  bench.copies = 3;
  CHECK(bench.ReadBack(4, 2, 4096) == second);
}

TEST_CASE("EmulatedDevice: a copy takes the latency and its bytes at the set rate", "[device]") {
  EmulatedDevice::Options options = Bench::Stepped();
  options.copy_rate = 1e9;
  options.copy_latency = std::chrono::microseconds(30);
  Bench bench(options);
  auto& bytes = bench.memory.Keep(Pattern(4000, 0));
  bench.device.Copy(CopyId{1}, CopyIn{.from = bytes, .to = bench.Slot(0)});
  bench.device.Copy(CopyId{2}, CopyIn{.from = bytes, .to = bench.Slot(1)});
  REQUIRE(bench.record.Copies(2).size() == 2);
  CHECK(bench.clock.Now() - TimePoint{} == std::chrono::microseconds(2 * (30 + 4)));
}

TEST_CASE("EmulatedDevice: a run has the reference's bits from a slot and from RAM", "[device]") {
  Bench bench(Bench::Stepped());
  for (const uint32_t rows : {1u, 3u, 19u}) {
    const LayerIndex layer{2};
    DeviceRows& work = bench.memory.Rows(bench.model, layer, rows);
    const Extent extent = bench.model.Locate(layer, ExpertIndex{3});
    const std::span<std::byte> record = bench.model.file().subspan(extent.offset, extent.bytes);
    bench.device.Copy(CopyId{rows}, CopyIn{.from = record, .to = bench.Slot(1)});
    REQUIRE(bench.record.Copies(++bench.copies).back().outcome == DeviceOutcome::kDone);

    const std::vector<float> expected = work.Expected(bench.model, 3);
    CHECK(bench.Compute(work.Task(bench.Slot(1))) == DeviceOutcome::kDone);
    CHECK(work.Outputs() == expected);
    std::fill(work.results.begin(), work.results.end(), 0.0f);
    CHECK(bench.Compute(work.Task(static_cast<const std::byte*>(record.data()))) ==
          DeviceOutcome::kDone);
    CHECK(work.Outputs() == expected);
  }
}

TEST_CASE("EmulatedDevice: a cancelled copy that has not begun writes nothing", "[device]") {
  // The first copy waits for the test, so that the second is still queued when it is cancelled.
  std::promise<void> go_on;
  std::shared_future<void> released = go_on.get_future().share();
  EmulatedDevice::Options options;
  options.wait_until = [released](TimePoint) { released.wait(); };
  Bench bench(options);
  auto& bytes = bench.memory.Keep(Pattern(512, 9));
  auto& other = bench.memory.Keep(Pattern(512, 100));
  bench.device.Copy(CopyId{1}, CopyIn{.from = bytes, .to = bench.Slot(0)});
  bench.device.Copy(CopyId{2}, CopyIn{.from = other, .to = bench.Slot(0)});
  bench.device.CancelCopy(CopyId{2});
  bench.device.CancelCopy(CopyId{99});  // none such
  go_on.set_value();
  const std::vector<CopyDone> done = bench.record.Copies(2);
  REQUIRE(done.size() == 2);
  CHECK(done[1].outcome == DeviceOutcome::kCancelled);
  bench.copies = 2;
  CHECK(bench.ReadBack(3, 0, 512) == bytes);
}

TEST_CASE("EmulatedDevice: a copy told to fail fails alone", "[device]") {
  Bench bench(Bench::Stepped());
  bench.device.FailCopies(1);
  auto& bytes = bench.memory.Keep(Pattern(512, 9));
  bench.device.Copy(CopyId{1}, CopyIn{.from = bytes, .to = bench.Slot(0)});
  bench.device.Copy(CopyId{2}, CopyIn{.from = bytes, .to = bench.Slot(0)});
  const std::vector<CopyDone> done = bench.record.Copies(2);
  REQUIRE(done.size() == 2);
  CHECK(done[0].outcome == DeviceOutcome::kFailed);
  CHECK(done[1].outcome == DeviceOutcome::kDone);
  CHECK(bench.record.losses().empty());
}

TEST_CASE("EmulatedDevice: a lost device says so once and fails all that comes", "[device]") {
  EmulatedDevice::Options options = Bench::Stepped();
  options.lost_after = 2;
  Bench bench(options);
  auto& bytes = bench.memory.Keep(Pattern(512, 9));
  for (uint64_t i = 1; i <= 4; ++i) {
    bench.device.Copy(CopyId{i}, CopyIn{.from = bytes, .to = bench.Slot(0)});
  }
  const std::vector<CopyDone> done = bench.record.Copies(4);
  REQUIRE(done.size() == 4);
  CHECK(done[0].outcome == DeviceOutcome::kDone);
  for (size_t i = 1; i < 4; ++i) CHECK(done[i].outcome == DeviceOutcome::kFailed);
  DeviceRows& work = bench.memory.Rows(bench.model, LayerIndex{1}, 1);
  CHECK(bench.Compute(work.Task(bench.Slot(0))) == DeviceOutcome::kFailed);
  bench.device.Lose("again");
  REQUIRE(bench.record.losses().size() == 1);
  CHECK_THAT(bench.record.losses()[0].message,
             Catch::Equals("device emulated0 is lost: after 2 copies and runs, as "
                           "devices[].lost_after says"));
}

TEST_CASE("EmulatedDevice: arenas share the budget and give it back", "[device]") {
  EmulatedDevice::Options options = Bench::Stepped();
  options.budget = 1_MiB;
  Bench bench(options);
  const Bytes left = bench.device.free();
  CHECK(left == 1_MiB - bench.plan.total);
  ArenaPlan large;
  large.regions.push_back({.slot_bytes = 4_KiB, .slots = 256, .offset = 0});
  large.total = 1_MiB;
  const auto refused = bench.device.Allocate(large, "models[b].vram");
  REQUIRE(!refused.has_value());
  CHECK(refused.error().reason == Reason::kNoRoom);
  CHECK_THAT(refused.error().message,
             Catch::StartsWith("models[b].vram: 1.00 MiB do not fit in device emulated0"));
  CHECK(bench.device.free() == left);
  bench.arena.reset();
  CHECK(bench.device.free() == 1_MiB);
  CHECK(bench.device.Allocate(large, "models[b].vram").has_value());
}

TEST_CASE("EmulatedDevice: a slot that is given back and taken again leaves the others as they are",
          "[device]") {
  Bench bench(Bench::Stepped());
  const Bytes size = bench.arena->size();
  const Bytes slot = bench.plan.regions[0].slot_bytes;
  REQUIRE(bench.arena->Places(SizeClass{0}) == 8);
  auto& bytes = bench.memory.Keep(Pattern(4096, 5));
  bench.device.Copy(CopyId{1}, CopyIn{.from = bytes, .to = bench.Slot(1)});
  bench.device.Copy(CopyId{2}, CopyIn{.from = bytes, .to = bench.Slot(2)});
  REQUIRE(bench.record.Copies(bench.copies = 2).size() == 2);
  const DeviceAddress address = bench.Slot(2);
  bench.arena->GiveBack(SizeClass{0}, SlotIndex{2});
  CHECK(bench.arena->size() == size - slot);
  CHECK(bench.device.free() == 64_MiB - size + slot);
  CHECK(bench.ReadBack(3, 1, 4096) == bytes);
  REQUIRE(bench.arena->Take(SizeClass{0}, SlotIndex{2}, 1).has_value());
  CHECK(bench.arena->size() == size);
  CHECK(bench.Slot(2) == address);
  CHECK(bench.ReadBack(4, 2, 4096) != bytes);
  CHECK(bench.ReadBack(5, 1, 4096) == bytes);
}

TEST_CASE("EmulatedDevice: an arena grows to a slot a record, as far as the budget goes",
          "[device]") {
  EmulatedDevice::Options options = Bench::Stepped();
  const ArenaPlan plan = Bench(Bench::Stepped()).plan;
  const Bytes slot = plan.regions[0].slot_bytes;
  options.budget = plan.total + slot * 2;
  Bench bench(options);
  const Bytes size = bench.arena->size();
  const Status refused = bench.arena->Take(SizeClass{0}, SlotIndex{4}, 3);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code == ErrorCode::kExhausted);
  CHECK(refused.error().reason == Reason::kNoRoom);
  CHECK_THAT(refused.error().message, Catch::StartsWith("vram: "));
  CHECK(bench.arena->size() == size);
  REQUIRE(bench.arena->Take(SizeClass{0}, SlotIndex{4}, 2).has_value());
  CHECK(bench.device.free() == Bytes());
  bench.arena.reset();
  CHECK(bench.device.free() == options.budget);
}

TEST_CASE("EmulatedDevice: a lost device takes memory back and gives none", "[device]") {
  Bench bench(Bench::Stepped());
  bench.device.Lose("for the test");
  bench.arena->GiveBack(SizeClass{0}, SlotIndex{3});
  const Status refused = bench.arena->Take(SizeClass{0}, SlotIndex{3}, 1);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code == ErrorCode::kUnavailable);
}

TEST_CASE("EmulatedDevice: its budget is counted in granules", "[device]") {
  EmulatedDevice::Options options = Bench::Stepped();
  options.granule = 1_MiB;
  Bench bench(options);
  const Bytes all = bench.arena->size();
  CHECK(all == DeviceMemory(bench.plan, 1_MiB));
  CHECK(all == 1_MiB * bench.plan.regions.size());
  for (uint32_t slot = 1; slot < 4; ++slot) bench.arena->GiveBack(SizeClass{0}, SlotIndex{slot});
  CHECK(bench.arena->size() == all);
  bench.arena->GiveBack(SizeClass{0}, SlotIndex{0});
  CHECK(bench.arena->size() == all - 1_MiB);
  CHECK(bench.device.free() == 64_MiB - bench.arena->size());
}

TEST_CASE("EmulatedDevice: a host that refuses memory leaves the device's budget as it was",
          "[device]") {
  EmulatedDevice::Options options = Bench::Stepped();
  Bench bench(options);
  options.memory.reserve = Bytes(uint64_t{1} << 50);  // which no host has
  EmulatedDevice poor(bench.Fill(options), bench.clock, bench.kernels);
  const auto refused = poor.Allocate(bench.plan, "vram");
  REQUIRE(!refused.has_value());
  CHECK(refused.error().reason == Reason::kMemoryLimit);
  CHECK(poor.free() == 64_MiB);
}

TEST_CASE("EmulatedDevice: Stop answers all that is unfinished", "[device]") {
  std::promise<void> go_on;
  std::shared_future<void> released = go_on.get_future().share();
  EmulatedDevice::Options options;
  options.wait_until = [released](TimePoint) { released.wait(); };
  Bench bench(options);
  auto& bytes = bench.memory.Keep(Pattern(512, 9));
  for (uint64_t i = 1; i <= 5; ++i) {
    bench.device.Copy(CopyId{i}, CopyIn{.from = bytes, .to = bench.Slot(0)});
  }
  std::jthread release([&] { go_on.set_value(); });
  bench.device.Stop();
  const std::vector<CopyDone> done = bench.record.Copies(5);
  REQUIRE(done.size() == 5);
  for (const CopyDone& each : done) CHECK(each.outcome != DeviceOutcome::kFailed);
}

}  // namespace moetier
