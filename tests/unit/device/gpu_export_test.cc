// How a slot's memory on a GPU is given to other processes.

#include <catch2/catch.hpp>
#include <memory>
#include <utility>

#include "kernels/cuda/emulated_gpu.h"
#include "tiers/device/cuda_device.h"

namespace moetier {
namespace {

using kernels::cuda::EmulatedGpu;
using kernels::cuda::Sharing;

// A card that counts what it is asked to export.
class CountingGpu final : public EmulatedGpu {
 public:
  CountingGpu(EmulatedGpu::Options options, int& exports)
      : EmulatedGpu(std::move(options)), exports_(exports) {}
  Result<ExportedMemory> Export(std::byte* begin, size_t bytes) override {
    ++exports_;
    return EmulatedGpu::Export(begin, bytes);
  }

 private:
  int& exports_;
};

}  // namespace

TEST_CASE("GpuArena: a slot in more granules than can be passed is refused before any is exported",
          "[device]") {
  EmulatedGpu::Options card;
  card.info = {.ordinal = 0,
               .uuid = "GPU-00000000-0000-0000-0000-000000000000",
               .name = "Emulated GPU",
               .compute = 90,
               .memory = 16_MiB};
  card.granule = 4096;
  card.sharing = Sharing::kExportable;
  int exports = 0;
  const SteadyClock clock;
  const std::unique_ptr<CudaDevice> device =
      CudaDevice::Create({.name = "gpu0", .budget = 1_MiB},
                         std::make_unique<CountingGpu>(std::move(card), exports), clock)
          .value();
  ArenaPlan plan;
  plan.regions.push_back({.slot_bytes = Bytes(3 * 4096), .slots = 2, .offset = 0, .records = 2});
  plan.total = Bytes(6 * 4096);
  const std::unique_ptr<DeviceArena> arena = device->Allocate(plan, "vram").value();
  const Result<ExportedSlot> refused = arena->Export(SizeClass{0}, SlotIndex{1}, 2);
  REQUIRE(!refused);
  CHECK(refused.error().reason == Reason::kTooLarge);
  CHECK_THAT(refused.error().message, Catch::Contains("3 granules of 4.00 KiB, at most 2"));
  CHECK(exports == 0);
  const Result<ExportedSlot> exported = arena->Export(SizeClass{0}, SlotIndex{1}, 3);
  REQUIRE(exported);
  CHECK(exported->memory.granules.size() == 3);
  CHECK(exports == 1);
}

}  // namespace moetier
