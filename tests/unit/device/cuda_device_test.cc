// CudaDevice over the emulated GPU: every kernel, copy and event is CUDA's own source.

#include "tiers/device/cuda_device.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/cuda/emulated_gpu.h"
#include "tests/unit/device/device_probe.h"
#include "tiers/arena.h"
#include "tiers/device/shown_slots.h"

namespace moetier {
namespace {

using kernels::cuda::EmulatedGpu;
using kernels::cuda::StreamHandle;
using testing::DeviceRecord;
using testing::DeviceRows;
using testing::FourSlots;
using testing::Pattern;
using testing::SyntheticModel;
using testing::WorkMemory;

EmulatedGpu::Options Card(uint64_t seed = 0, uint32_t compute = 90) {
  EmulatedGpu::Options options;
  options.info = {.ordinal = 0,
                  .uuid = "GPU-00000000-0000-0000-0000-000000000000",
                  .name = "Emulated GPU",
                  .compute = compute,
                  .memory = 64_MiB};
  options.grid.seed = seed;
  return options;
}

// A device on the emulated card, with an arena of FourSlots of the synthetic model.
class Bench {
 public:
  explicit Bench(EmulatedGpu::Options card = Card(), Bytes budget = 16_MiB)
      : device(CudaDevice::Create({.name = "gpu0", .budget = budget}, Open(std::move(card)), clock)
                   .value()) {
    for (const LayerGeometry& layer : model.geometry().layers) {
      REQUIRE(device->Admit(layer.shape, layer.record).has_value());
    }
    arena = device->Allocate(FourSlots(model), "vram").value();
    device->Start(record);
  }
  ~Bench() { device->Stop(); }

  std::unique_ptr<EmulatedGpu> Open(EmulatedGpu::Options card) {
    auto opened = std::make_unique<EmulatedGpu>(std::move(card));
    gpu = opened.get();
    return opened;
  }
  [[nodiscard]] DeviceAddress Slot(uint32_t slot) const {
    return arena->Slot(SizeClass{0}, SlotIndex{slot});
  }
  DeviceOutcome Copy(const DeviceCopy& copy) {
    device->Copy(CopyId{++copies}, copy);
    const std::vector<CopyDone> done = record.Copies(copies);
    return done.size() == copies ? done.back().outcome : DeviceOutcome::kCancelled;
  }
  DeviceOutcome Compute(std::vector<DeviceTask> tasks) {
    device->Run(RunId{++runs}, std::move(tasks));
    const std::vector<RunDone> done = record.Runs(runs);
    return done.size() == runs ? done.back().outcome : DeviceOutcome::kCancelled;
  }
  DeviceRows& Rows(LayerIndex layer, uint32_t rows) { return memory.Rows(model, layer, rows); }
  [[nodiscard]] std::span<std::byte> Record(LayerIndex layer, uint16_t expert) {
    const Extent extent = model.Locate(layer, ExpertIndex{expert});
    return model.file().subspan(extent.offset, extent.bytes);
  }

  SteadyClock clock;
  SyntheticModel model{{.experts = 4, .hidden = 64, .ffn = 64}};
  DeviceRecord record;
  WorkMemory memory;
  EmulatedGpu* gpu = nullptr;  // the device's
  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<DeviceArena> arena;
  size_t copies = 0;
  size_t runs = 0;
};

// A card that brings another byte than it was given, once in a copy of `bytes` or more.
class LyingGpu final : public EmulatedGpu {
 public:
  explicit LyingGpu(EmulatedGpu::Options options) : EmulatedGpu(std::move(options)) {}
  Status Copy(void* to, const void* from, size_t bytes, StreamHandle stream) override {
    if (bytes < 4) return EmulatedGpu::Copy(to, from, bytes, stream);
    RETURN_IF_ERROR(EmulatedGpu::Copy(to, from, bytes, stream));
    return EmulatedGpu::Copy(to, static_cast<const std::byte*>(from) + 2, 1, stream);
  }
};

// A card without the memory that its driver wants at the first launch of a kernel.
class FullGpu final : public EmulatedGpu {
 public:
  explicit FullGpu(EmulatedGpu::Options options) : EmulatedGpu(std::move(options)) {}
  [[nodiscard]] Status CheckLaunch(int code) const override {
    if (launches_++ == 0) return EmulatedGpu::CheckLaunch(code);  // the self-test's
    return Error{ErrorCode::kExhausted, Reason::kMemoryLimit, "a kernel's launch: out of memory"};
  }

 private:
  mutable std::atomic<int> launches_{0};
};

// A card that records nothing any more, when told to, though it does what it was given.
class DeafGpu final : public EmulatedGpu {
 public:
  explicit DeafGpu(EmulatedGpu::Options options) : EmulatedGpu(std::move(options)) {}
  Status Record(kernels::cuda::EventHandle event, StreamHandle stream) override {
    if (!deaf) return EmulatedGpu::Record(event, stream);
    return Error{ErrorCode::kUnavailable, Reason::kIo, "no event can be recorded"};
  }
  std::atomic<bool> deaf{false};
};

}  // namespace

TEST_CASE("CudaDevice: what is copied in comes out again, in the order of the copies", "[cuda]") {
  Bench bench;
  auto& first = bench.memory.Keep(Pattern(4096, 1));
  auto& second = bench.memory.Keep(Pattern(4096, 77));
  auto& out = bench.memory.Zeros(4096);
  bench.device->Copy(CopyId{1}, CopyIn{.from = first, .to = bench.Slot(2)});
  bench.device->Copy(CopyId{2}, CopyOut{.from = bench.Slot(2), .to = out});
  bench.device->Copy(CopyId{3}, CopyIn{.from = second, .to = bench.Slot(2)});
  const std::vector<CopyDone> done = bench.record.Copies(3);
  REQUIRE(done.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(done[i].id == CopyId{i + 1});
    CHECK(done[i].outcome == DeviceOutcome::kDone);
  }
  CHECK(out == first);
}

TEST_CASE("CudaDevice: a run has the reference's bits from a slot and from RAM", "[cuda]") {
  for (const uint64_t seed : {0u, 1u, 2u}) {
    Bench bench(Card(seed, seed == 0 ? 86 : 90));  // which read records in different ways
    REQUIRE(bench.device->ShowHost(bench.model.file()).has_value());
    for (const uint32_t rows : {1u, 3u, 19u}) {
      const LayerIndex layer{2};
      DeviceRows& work = bench.Rows(layer, rows);
      const std::span<std::byte> record = bench.Record(layer, 3);
      REQUIRE(bench.Copy(CopyIn{.from = record, .to = bench.Slot(1)}) == DeviceOutcome::kDone);
      const std::vector<float> expected = work.Expected(bench.model, 3);
      CHECK(bench.Compute({work.Task(bench.Slot(1))}) == DeviceOutcome::kDone);
      CHECK(work.Outputs() == expected);
      std::fill(work.results.begin(), work.results.end(), 0.0f);
      CHECK(bench.Compute({work.Task(static_cast<const std::byte*>(record.data()))}) ==
            DeviceOutcome::kDone);
      CHECK(work.Outputs() == expected);
    }
    bench.device->HideHost(bench.model.file());
  }
}

TEST_CASE("CudaDevice: experts of one run share its rows, and a run may be larger than a piece",
          "[cuda]") {
  constexpr uint32_t kRows = 100;  // three experts: 300 picks
  static_assert(3 * kRows > GpuLane::kPicksAtOnce);
  Bench bench;
  const LayerIndex layer{1};
  const DeviceRows& shared = bench.Rows(layer, kRows);
  std::vector<const DeviceRows*> results;
  std::vector<DeviceTask> tasks;
  for (uint16_t expert = 0; expert < 3; ++expert) {
    REQUIRE(bench.Copy(CopyIn{.from = bench.Record(layer, expert), .to = bench.Slot(expert)}) ==
            DeviceOutcome::kDone);
    DeviceRows& own = bench.Rows(layer, kRows);
    results.push_back(&own);
    DeviceTask task = own.Task(bench.Slot(expert));
    task.tokens = shared.tokens;
    tasks.push_back(task);
  }
  REQUIRE(bench.Compute(tasks) == DeviceOutcome::kDone);
  for (uint16_t expert = 0; expert < 3; ++expert) {
    CHECK(results[expert]->Outputs() == shared.Expected(bench.model, expert));
  }
}

TEST_CASE("CudaDevice: runs over slots, runs over RAM and copies go on side by side", "[cuda]") {
  Bench bench(Card(3));
  REQUIRE(bench.device->ShowHost(bench.model.file()).has_value());
  const LayerIndex layer{1};
  REQUIRE(bench.Copy(CopyIn{.from = bench.Record(layer, 0), .to = bench.Slot(0)}) ==
          DeviceOutcome::kDone);
  DeviceRows& in_slot = bench.Rows(layer, 2);
  DeviceRows& in_ram = bench.Rows(layer, 2);
  auto& out = bench.memory.Zeros(4096);
  for (uint64_t i = 0; i < 10; ++i) {
    bench.device->Run(RunId{++bench.runs}, {in_slot.Task(bench.Slot(0))});
    bench.device->Run(RunId{++bench.runs},
                      {in_ram.Task(static_cast<const std::byte*>(bench.Record(layer, 1).data()))});
    bench.device->Copy(CopyId{++bench.copies}, CopyOut{.from = bench.Slot(0), .to = out});
  }
  REQUIRE(bench.record.Runs(bench.runs).size() == bench.runs);
  REQUIRE(bench.record.Copies(bench.copies).size() == bench.copies);
  CHECK(in_slot.Outputs() == in_slot.Expected(bench.model, 0));
  CHECK(in_ram.Outputs() == in_ram.Expected(bench.model, 1));
  CHECK(bench.record.losses().empty());
  bench.device->HideHost(bench.model.file());
}

TEST_CASE("CudaDevice: a GPU that hangs is lost when its time is up, and stops", "[cuda]") {
  EmulatedGpu::Options card = Card();
  card.longest_wait = std::chrono::milliseconds(200);
  Bench bench(card);
  DeviceRows& rows = bench.Rows(LayerIndex{1}, 2);
  bench.gpu->Hang();
  CHECK(bench.Compute({rows.Task(bench.Slot(0))}) == DeviceOutcome::kFailed);
  REQUIRE(bench.record.losses().size() == 1);
  CHECK_THAT(bench.record.losses()[0].message, Catch::Contains("has not answered for"));
  auto& bytes = bench.memory.Zeros(4096);
  CHECK(bench.Copy(CopyIn{.from = bytes, .to = bench.Slot(0)}) == DeviceOutcome::kFailed);
}

TEST_CASE("CudaDevice: failed work is reported when nothing of it is to come any more", "[cuda]") {
  SteadyClock clock;
  auto opened = std::make_unique<DeafGpu>(Card());
  DeafGpu& gpu = *opened;
  DeviceRecord record;
  const auto device =
      CudaDevice::Create({.name = "gpu0", .budget = 1_MiB}, std::move(opened), clock).value();
  ArenaPlan plan;
  plan.regions = {{.slot_bytes = 64_KiB, .slots = 1, .offset = 0, .records = 1}};
  plan.total = 64_KiB;
  const auto arena = device->Allocate(plan, "vram").value();
  const DeviceAddress slot = arena->Slot(SizeClass{0}, SlotIndex{0});
  device->Start(record);
  const std::vector<std::byte> bytes = Pattern(4096, 9);
  gpu.deaf = true;  // the copy is put into its stream, and then there is an error
  device->Copy(CopyId{1}, CopyIn{.from = bytes, .to = slot});
  REQUIRE(record.Copies(1).size() == 1);
  CHECK(record.Copies(1)[0].outcome == DeviceOutcome::kFailed);
  // It has been done: nothing reads there later.
  const auto* const emulated = reinterpret_cast<const std::byte*>(Raw(slot));  // NOLINT
  CHECK(std::equal(bytes.begin(), bytes.end(), emulated));
  device->Stop();
}

TEST_CASE("AwaitEvent: an error ends the wait at once", "[cuda]") {
  int looks = 0;
  const Status status =
      kernels::cuda::AwaitEvent(kernels::cuda::HostWait::kSleep, [&]() -> Result<bool> {
        if (++looks < 3) return false;
        return Error{ErrorCode::kUnavailable, Reason::kIo, "gone"};
      });
  REQUIRE(!status);
  CHECK(status.error().message == "gone");
  CHECK(looks == 3);
}

TEST_CASE("CudaDevice: experts that no kernel takes are refused by name", "[cuda]") {
  Bench bench;
  kernels::ExpertShape shape = bench.model.geometry().layers.front().shape;
  shape.down = kernels::WeightType::kIQ4_NL;
  const auto layout = kernels::MakeRecordLayout(shape, kernels::RecordForm::kRows16);
  const Status refused = bench.device->Admit(shape, *layout);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().reason == Reason::kUnsupportedType);
  CHECK_THAT(refused.error().message, Catch::Contains("IQ4_NL"));
}

TEST_CASE("CudaDevice: an expert too large for the card's memory is refused, the others run on",
          "[cuda]") {
  Bench bench;
  kernels::ExpertShape shape = bench.model.geometry().layers.front().shape;
  shape.hidden = 1 << 16;
  const auto layout = kernels::MakeRecordLayout(shape, kernels::RecordForm::kRows16);
  const Status refused = bench.device->Admit(shape, *layout);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code == ErrorCode::kExhausted);
  const LayerIndex layer{1};
  DeviceRows& work = bench.Rows(layer, 1);
  REQUIRE(bench.Copy(CopyIn{.from = bench.Record(layer, 2), .to = bench.Slot(0)}) ==
          DeviceOutcome::kDone);
  CHECK(bench.Compute({work.Task(bench.Slot(0))}) == DeviceOutcome::kDone);
  CHECK(work.Outputs() == work.Expected(bench.model, 2));
}

TEST_CASE("CudaDevice: a model whose kernels do not fit is refused, before a run needs them",
          "[cuda]") {
  const SteadyClock clock;
  const auto device = CudaDevice::Create({.name = "gpu0", .budget = 16_MiB},
                                         std::make_unique<FullGpu>(Card()), clock)
                          .value();
  DeviceRecord record;
  device->Start(record);
  SyntheticModel model({.experts = 4, .hidden = 64, .ffn = 64});
  const LayerGeometry& layer = model.geometry().layers.front();
  const Status refused = device->Admit(layer.shape, layer.record);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code == ErrorCode::kExhausted);
  device->Stop();
  CHECK(record.losses().empty());
}

TEST_CASE("CudaDevice: a slot that is given back frees its granules, and comes back at its address",
          "[cuda]") {
  Bench bench;
  const Bytes all = bench.arena->size();
  const Bytes free = bench.device->free();
  CHECK(free == 16_MiB - all);
  REQUIRE(bench.arena->Places(SizeClass{0}) == 8);
  auto& bytes = bench.memory.Keep(Pattern(4096, 5));
  REQUIRE(bench.Copy(CopyIn{.from = bytes, .to = bench.Slot(3)}) == DeviceOutcome::kDone);
  const DeviceAddress address = bench.Slot(3);
  for (uint32_t slot = 0; slot < 3; ++slot) bench.arena->GiveBack(SizeClass{0}, SlotIndex{slot});
  auto& out = bench.memory.Zeros(4096);
  REQUIRE(bench.Copy(CopyOut{.from = bench.Slot(3), .to = out}) == DeviceOutcome::kDone);
  CHECK(out == bytes);
  bench.arena->GiveBack(SizeClass{0}, SlotIndex{3});
  CHECK(bench.arena->size() < all);
  CHECK(bench.device->free() == 16_MiB - bench.arena->size());
  REQUIRE(bench.arena->Take(SizeClass{0}, SlotIndex{0}, 8).has_value());
  CHECK(bench.Slot(3) == address);
  REQUIRE(bench.Copy(CopyIn{.from = bytes, .to = bench.Slot(7)}) == DeviceOutcome::kDone);
  bench.arena.reset();
  CHECK(bench.device->free() == 16_MiB);
}

TEST_CASE("CudaDevice: a budget that the card does not have is refused whole", "[cuda]") {
  Bench bench(Card(), 1_GiB);  // the card has 64 MiB
  ArenaPlan large;
  large.regions.push_back({.slot_bytes = 1_MiB, .slots = 128, .offset = 0, .records = 128});
  large.total = 128_MiB;
  const Bytes free = bench.device->free();
  const auto refused = bench.device->Allocate(large, "models[b].vram");
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code == ErrorCode::kExhausted);
  CHECK_THAT(refused.error().message, Catch::StartsWith("models[b].vram: Emulated GPU has"));
  CHECK(bench.device->free() == free);
}

TEST_CASE("CudaDevice: a card that fails is lost once, and all that comes later fails", "[cuda]") {
  EmulatedGpu::Options card = Card();
  card.fails_after = 40;
  Bench bench(card);
  auto& bytes = bench.memory.Keep(Pattern(512, 9));
  DeviceOutcome last = DeviceOutcome::kDone;
  while (last == DeviceOutcome::kDone) {
    last = bench.Copy(CopyIn{.from = bytes, .to = bench.Slot(0)});
  }
  CHECK(last == DeviceOutcome::kFailed);
  CHECK(bench.copies > 1);
  DeviceRows& work = bench.Rows(LayerIndex{1}, 1);
  CHECK(bench.Compute({work.Task(bench.Slot(0))}) == DeviceOutcome::kFailed);
  REQUIRE(bench.record.losses().size() == 1);
  CHECK_THAT(bench.record.losses()[0].message, Catch::StartsWith("device gpu0 is lost: "));
  const Status refused = bench.arena->Take(SizeClass{0}, SlotIndex{4}, 1);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code == ErrorCode::kUnavailable);
}

TEST_CASE("CudaDevice: slots of RAM come and go after the card is lost", "[cuda]") {
  EmulatedGpu::Options card = Card();
  card.fails_after = 40;
  Bench bench(card);
  ArenaPlan ram;
  ram.regions.push_back({.slot_bytes = 8_KiB, .slots = 2, .offset = 0, .records = 8});
  ram.total = 16_KiB;
  const std::unique_ptr<Arena> arena = Arena::Create(ram, {}).value();
  const auto shown = ShownSlots::Create(*bench.device, *arena, {2}, {}).value();
  auto& bytes = bench.memory.Keep(Pattern(512, 9));
  while (bench.Copy(CopyIn{.from = bytes, .to = bench.Slot(0)}) == DeviceOutcome::kDone) {
  }
  REQUIRE(bench.record.losses().size() == 1);
  shown->GiveBack(SizeClass{0}, SlotIndex{1});
  CHECK(shown->Take(SizeClass{0}, SlotIndex{1}, 3).has_value());
  const std::unique_ptr<Arena> later = Arena::Create(ram, {}).value();
  CHECK(ShownSlots::Create(*bench.device, *later, {2}, {}).has_value());
}

TEST_CASE("EmulatedGpu: a copy is refused that leaves what was shown at once, or has no memory",
          "[cuda]") {
  EmulatedGpu gpu(Card());
  const StreamHandle stream = gpu.NewStream().value();
  std::vector<std::byte> host(256);
  const std::span<std::byte> first = std::span(host).first(100);
  const std::span<std::byte> second = std::span(host).subspan(100, 100);
  REQUIRE(gpu.ShowHost(first).has_value());
  REQUIRE(gpu.ShowHost(second).has_value());
  std::byte* const begin = gpu.Reserve(2 * gpu.granule()).value();
  REQUIRE(gpu.Map(begin, gpu.granule()).has_value());
  CHECK(begin[0] != std::byte{0});
  CHECK(gpu.Copy(begin, first.data(), 100, stream).has_value());
  CHECK(gpu.Copy(begin, host.data() + 200, 56, stream).has_value());
  CHECK(!gpu.Copy(begin, first.data(), 101, stream).has_value());
  CHECK(!gpu.Copy(host.data() + 150, begin, 100, stream).has_value());
  CHECK(!gpu.Copy(begin + gpu.granule() - 50, first.data(), 100, stream).has_value());
  gpu.HideHost(first);
  CHECK(!gpu.Copy(begin, first.data(), 101, stream).has_value());
  CHECK(gpu.Copy(begin, first.data(), 100, stream).has_value());
  gpu.HideHost(second);
  gpu.Unmap(begin, gpu.granule());
  gpu.Unreserve(begin, 2 * gpu.granule());
}

TEST_CASE("CudaDevice: a card whose copies are wrong is not taken", "[cuda]") {
  const SteadyClock clock;
  const auto refused = CudaDevice::Create({.name = "gpu0", .budget = 16_MiB},
                                          std::make_unique<LyingGpu>(Card()), clock);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code == ErrorCode::kUnavailable);
  CHECK_THAT(refused.error().message, Catch::Contains("did not come back as it was"));
}

}  // namespace moetier
