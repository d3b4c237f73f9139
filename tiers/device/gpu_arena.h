#ifndef MOETIER_TIERS_DEVICE_GPU_ARENA_H_
#define MOETIER_TIERS_DEVICE_GPU_ARENA_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/gpu.h"
#include "tiers/device/device.h"
#include "tiers/device/device_budget.h"
#include "tiers/device/slot_granules.h"

namespace moetier {

// Slots in a GPU's memory: addresses for a slot a record, memory behind those granules that slots
// need.
class GpuArena final : public DeviceArena {
 public:
  // What Device::Allocate says. GPU and budget outlive it.
  static Result<std::unique_ptr<GpuArena>> Create(kernels::cuda::Gpu& gpu, DeviceBudget& budget,
                                                  const ArenaPlan& plan, std::string_view what);
  ~GpuArena() override;

  [[nodiscard]] uint32_t Places(SizeClass size_class) const override {
    return regions_[Raw(size_class)].places;
  }
  [[nodiscard]] DeviceAddress Slot(SizeClass size_class, SlotIndex slot) const override;
  void GiveBack(SizeClass size_class, SlotIndex slot) override;
  Status Take(SizeClass size_class, SlotIndex first, uint32_t count) override;
  [[nodiscard]] Result<ExportedSlot> Export(SizeClass size_class, SlotIndex slot,
                                            uint32_t most_granules) const override;
  [[nodiscard]] Bytes size() const override { return Bytes(size_.load(std::memory_order_relaxed)); }

 private:
  struct Region {
    Bytes slot_bytes;
    uint32_t places = 0;
    std::byte* begin = nullptr;
    SlotGranules granules;
  };

  GpuArena(kernels::cuda::Gpu& gpu, DeviceBudget& budget, std::string_view what)
      : gpu_(gpu), budget_(budget), what_(what) {}
  [[nodiscard]] std::byte* AddressOf(const Region& region, const SlotGranules::Run& run) const;
  Status MapAll(const Region& region, const std::vector<SlotGranules::Run>& runs);

  kernels::cuda::Gpu& gpu_;
  DeviceBudget& budget_;
  const std::string what_;
  std::byte* reserved_ = nullptr;
  size_t reserved_bytes_ = 0;
  std::vector<Region> regions_;    // by size class
  std::atomic<uint64_t> size_{0};  // relaxed: a gauge for the status, which orders nothing
};

}  // namespace moetier

#endif  // MOETIER_TIERS_DEVICE_GPU_ARENA_H_
