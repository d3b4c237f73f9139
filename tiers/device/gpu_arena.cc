#include "tiers/device/gpu_arena.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/text_size.h"

namespace moetier {

Result<std::unique_ptr<GpuArena>> GpuArena::Create(kernels::cuda::Gpu& gpu, DeviceBudget& budget,
                                                   const ArenaPlan& plan, std::string_view what) {
  std::unique_ptr<GpuArena> arena(new GpuArena(gpu, budget, what));
  const Bytes granule(gpu.granule());
  for (const ArenaRegion& region : plan.regions) {
    const uint32_t places = std::max(region.slots, region.records);
    arena->regions_.push_back({.slot_bytes = region.slot_bytes,
                               .places = places,
                               .begin = nullptr,
                               .granules = {region.slot_bytes, granule, places}});
    arena->reserved_bytes_ += arena->regions_.back().granules.count() * granule.count();
  }
  if (arena->reserved_bytes_ == 0) return arena;
  ASSIGN_OR_RETURN(arena->reserved_, gpu.Reserve(arena->reserved_bytes_));
  std::byte* next = arena->reserved_;
  for (Region& region : arena->regions_) {
    region.begin = next;
    next += region.granules.count() * granule.count();
  }
  for (size_t i = 0; i < plan.regions.size(); ++i) {
    RETURN_IF_ERROR(
        arena->Take(SizeClass{static_cast<uint8_t>(i)}, SlotIndex{0}, plan.regions[i].slots));
  }
  return arena;
}

GpuArena::~GpuArena() {
  for (const Region& region : regions_) {
    for (const SlotGranules::Run& run : region.granules.Mapped()) {
      gpu_.Unmap(AddressOf(region, run), region.granules.Size(run).count());
    }
  }
  budget_.GiveBack(size());
  if (reserved_ != nullptr) gpu_.Unreserve(reserved_, reserved_bytes_);
}

DeviceAddress GpuArena::Slot(SizeClass size_class, SlotIndex slot) const {
  const Region& region = regions_[Raw(size_class)];
  MOE_CHECK(Raw(slot) < region.places, "slot {} of {}", Raw(slot), region.places);
  return DeviceAddress{
      reinterpret_cast<uint64_t>(region.begin + (region.slot_bytes * Raw(slot)).count())};
}

std::byte* GpuArena::AddressOf(const Region& region, const SlotGranules::Run& run) const {
  return region.begin + run.first * gpu_.granule();
}

void GpuArena::GiveBack(SizeClass size_class, SlotIndex slot) {
  Region& region = regions_[Raw(size_class)];
  const SlotGranules::Run freed = region.granules.Remove(slot);
  if (freed.count == 0) return;
  const Bytes bytes = region.granules.Size(freed);
  gpu_.Unmap(AddressOf(region, freed), bytes.count());
  size_ -= bytes.count();
  budget_.GiveBack(bytes);
}

Status GpuArena::Take(SizeClass size_class, SlotIndex first, uint32_t count) {
  Region& region = regions_[Raw(size_class)];
  const std::vector<SlotGranules::Run> lacking = region.granules.Lacking(first, count);
  Bytes wanted;
  for (const SlotGranules::Run& run : lacking) wanted += region.granules.Size(run);
  RETURN_IF_ERROR(budget_.Take(wanted, what_));
  if (Status mapped = MapAll(region, lacking); !mapped) {
    budget_.GiveBack(wanted);
    mapped.error().message = fmt::format("{}: {}", what_, mapped.error().message);
    return mapped;
  }
  region.granules.Add(first, count);
  size_ += wanted.count();
  return Ok{};
}

Result<ExportedSlot> GpuArena::Export(SizeClass size_class, SlotIndex slot,
                                      uint32_t most_granules) const {
  RETURN_IF_ERROR(budget_.CheckUsable(what_));
  const Region& region = regions_[Raw(size_class)];
  const SlotGranules::Run run = region.granules.Of(slot, 1);
  if (run.count > most_granules) {
    return Error{ErrorCode::kUnimplemented, Reason::kTooLarge,
                 fmt::format("the slot lies in {} granules of {}, at most {} can be passed",
                             run.count, FormatSize(Bytes(gpu_.granule())), most_granules)};
  }
  ASSIGN_OR_RETURN(ExportedMemory exported,
                   gpu_.Export(AddressOf(region, run), region.granules.Size(run).count()));
  const Bytes begin = region.slot_bytes * Raw(slot);
  return ExportedSlot{.memory = std::move(exported),
                      .granule = Bytes(gpu_.granule()),
                      .offset = begin - Bytes(run.first * gpu_.granule()),
                      .device = gpu_.info().uuid};
}

// All of them or none.
Status GpuArena::MapAll(const Region& region, const std::vector<SlotGranules::Run>& runs) {
  for (size_t i = 0; i < runs.size(); ++i) {
    const Status mapped =
        gpu_.Map(AddressOf(region, runs[i]), region.granules.Size(runs[i]).count());
    if (mapped) continue;
    for (const SlotGranules::Run& run : std::span(runs).first(i)) {
      gpu_.Unmap(AddressOf(region, run), region.granules.Size(run).count());
    }
    return mapped;
  }
  return Ok{};
}

}  // namespace moetier
