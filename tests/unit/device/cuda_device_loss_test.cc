// CudaDevice over a card that hangs, and on a host that was suspended: whatever the driver kept of
// its memory, no result of it is believed.

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "kernels/cuda/emulated_gpu.h"
#include "tests/support/eventually.h"
#include "tests/unit/device/device_probe.h"
#include "tiers/device/cuda_device.h"

namespace moetier {
namespace {

using kernels::cuda::EmulatedGpu;
using testing::DeviceRecord;
using testing::DeviceRows;
using testing::SyntheticModel;

// A card that notes where copies go.
class NotingGpu final : public EmulatedGpu {
 public:
  explicit NotingGpu(Options options) : EmulatedGpu(std::move(options)) {}
  Status Copy(void* to, const void* from, size_t bytes,
              kernels::cuda::StreamHandle stream) override {
    {
      MutexLock lock(mu_);
      copied_to_.push_back(static_cast<const std::byte*>(to));
    }
    return EmulatedGpu::Copy(to, from, bytes, stream);
  }
  [[nodiscard]] bool CopiedInto(std::span<const std::byte> memory) {
    MutexLock lock(mu_);
    return std::ranges::any_of(copied_to_, [&](const std::byte* to) {
      return to >= memory.data() && to < memory.data() + memory.size();
    });
  }

 private:
  Mutex mu_;
  std::vector<const std::byte*> copied_to_ GUARDED_BY(mu_);
};

// A device with one slot, which has a record, on a host that sleeps when it is told to.
struct LossBench {
  LossBench() {
    EmulatedGpu::Options card;
    card.info = {
        .ordinal = 0, .uuid = "GPU-0", .name = "Emulated GPU", .compute = 90, .memory = 64_MiB};
    card.longest_wait = std::chrono::milliseconds(50);
    auto opened = std::make_unique<NotingGpu>(card);
    gpu = opened.get();
    device = CudaDevice::Create({.name = "gpu0",
                                 .budget = 1_MiB,
                                 .times = [this] { return HostTimes{.all = slept.load()}; }},
                                std::move(opened), clock)
                 .value();
    const LayerGeometry& layer = *model.geometry().Find(LayerIndex{1});
    REQUIRE(device->Admit(layer.shape, layer.record).has_value());
    ArenaPlan plan;
    plan.regions = {{.slot_bytes = 64_KiB, .slots = 1, .offset = 0, .records = 1}};
    plan.total = 64_KiB;
    arena = device->Allocate(plan, "vram").value();
    slot = arena->Slot(SizeClass{0}, SlotIndex{0});
    device->Start(record);
    const Extent extent = model.Locate(LayerIndex{1}, ExpertIndex{0});
    bytes = model.file().subspan(extent.offset, extent.bytes);
    device->Copy(CopyId{1}, CopyIn{.from = bytes, .to = slot});
    REQUIRE(record.Copies(1).size() == 1);
  }
  ~LossBench() { device->Stop(); }

  std::atomic<std::chrono::nanoseconds> slept{std::chrono::seconds(5)};  // before it was made
  SteadyClock clock;
  SyntheticModel model{{.experts = 4, .hidden = 64, .ffn = 64}};
  DeviceRecord record;
  NotingGpu* gpu = nullptr;  // the device's
  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<DeviceArena> arena;
  DeviceAddress slot{};
  std::span<std::byte> bytes;
};

}  // namespace

TEST_CASE("CudaDevice: what is computed after the host was suspended is not believed", "[cuda]") {
  LossBench bench;
  DeviceRows rows(bench.model, LayerIndex{1}, 1);
  bench.device->Run(RunId{1}, {rows.Task(bench.slot)});
  REQUIRE(bench.record.Runs(1).size() == 1);
  CHECK(bench.record.Runs(1)[0].outcome == DeviceOutcome::kDone);
  bench.slept = std::chrono::seconds(6);
  bench.device->Run(RunId{2}, {rows.Task(bench.slot)});
  REQUIRE(bench.record.Runs(2).size() == 2);
  CHECK(bench.record.Runs(2)[1].outcome == DeviceOutcome::kFailed);
  REQUIRE(bench.record.losses().size() == 1);
  CHECK_THAT(bench.record.losses()[0].message,
             Catch::StartsWith("device gpu0 is lost: the host was suspended"));
}

TEST_CASE("CudaDevice: what is copied out after the host was suspended is not believed", "[cuda]") {
  LossBench bench;
  bench.slept = std::chrono::seconds(6);
  std::vector<std::byte> out(bench.bytes.size());
  bench.device->Copy(CopyId{2}, CopyOut{.from = bench.slot, .to = out});
  REQUIRE(bench.record.Copies(2).size() == 2);
  CHECK(bench.record.Copies(2)[1].outcome == DeviceOutcome::kFailed);
  CHECK(bench.record.losses().size() == 1);
}

TEST_CASE("CudaDevice: an idle device learns that the host was suspended", "[cuda]") {
  LossBench bench;
  bench.slept = std::chrono::seconds(6);
  REQUIRE(testing::Eventually([&] { return bench.record.losses().size() == 1; }));
  CHECK(!bench.arena->Export(SizeClass{0}, SlotIndex{0}, 64));
}

TEST_CASE("CudaDevice: copies out that hang end, and the card has no part of where they were to go",
          "[cuda]") {
  LossBench bench;
  std::vector<std::byte> out(bench.bytes.size());
  bench.gpu->Hang();
  for (uint64_t id = 2; id < 6; ++id) {  // two that have begun, and those behind them
    bench.device->Copy(CopyId{id}, CopyOut{.from = bench.slot, .to = out});
  }
  const std::vector<CopyDone> done = bench.record.Copies(5);
  REQUIRE(done.size() == 5);
  for (size_t i = 1; i < done.size(); ++i) CHECK(done[i].outcome == DeviceOutcome::kFailed);
  CHECK(bench.record.losses().size() == 1);
  CHECK_FALSE(bench.gpu->CopiedInto(out));
}

}  // namespace moetier
