#include "tiers/device/shown_slots.h"

#include <algorithm>

#include "base/text_size.h"

namespace moetier {
namespace {

constexpr Bytes kProgressStep = 256_MiB;

}  // namespace

Result<std::unique_ptr<ShownSlots>> ShownSlots::Create(Device& device, Arena& arena,
                                                       const std::vector<uint32_t>& slots,
                                                       const Progress& progress) {
  std::unique_ptr<ShownSlots> shown(new ShownSlots(device, arena));
  for (size_t i = 0; i < slots.size(); ++i) {
    shown->shown_.emplace_back(arena.Places(SizeClass{static_cast<uint8_t>(i)}));
  }
  Bytes total;
  for (size_t i = 0; i < slots.size(); ++i) total += arena.plan().regions[i].slot_bytes * slots[i];
  Bytes done;
  for (size_t i = 0; i < slots.size(); ++i) {
    const Bytes slot_bytes = arena.plan().regions[i].slot_bytes;
    const auto step = static_cast<uint32_t>(
        std::clamp<uint64_t>(kProgressStep.count() / slot_bytes.count(), 1, UINT32_MAX));
    for (uint32_t first = 0; first < slots[i];) {
      const uint32_t count = std::min(step, slots[i] - first);
      RETURN_IF_ERROR(shown->Show(SizeClass{static_cast<uint8_t>(i)}, SlotIndex{first}, count));
      first += count;
      done += slot_bytes * count;
      if (!progress || progress(done, total)) continue;
      return Error{ErrorCode::kCancelled, Reason::kCancelled,
                   fmt::format("stopped after {} of {} were shown to {}", FormatSize(done),
                               FormatSize(total), device.description().name)};
    }
  }
  return shown;
}

ShownSlots::~ShownSlots() {
  for (size_t i = 0; i < shown_.size(); ++i) {
    for (uint32_t slot = 0; slot < shown_[i].size(); ++slot) {
      if (shown_[i][slot]) Hide(SizeClass{static_cast<uint8_t>(i)}, SlotIndex{slot});
    }
  }
}

void ShownSlots::GiveBack(SizeClass size_class, SlotIndex slot) {
  Hide(size_class, slot);
  arena_.GiveBack(size_class, slot);
}

Status ShownSlots::Take(SizeClass size_class, SlotIndex first, uint32_t count) {
  RETURN_IF_ERROR(arena_.Take(size_class, first, count));
  const Status shown = Show(size_class, first, count);
  if (shown) return Ok{};
  for (uint32_t i = 0; i < count; ++i) arena_.GiveBack(size_class, SlotIndex{Raw(first) + i});
  return shown;
}

Status ShownSlots::Show(SizeClass size_class, SlotIndex first, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const SlotIndex slot{Raw(first) + i};
    if (const Status status = device_.ShowHost(arena_.Slot(size_class, slot)); !status) {
      for (uint32_t done = 0; done < i; ++done) Hide(size_class, SlotIndex{Raw(first) + done});
      return status;
    }
    shown_[Raw(size_class)][Raw(slot)] = true;
  }
  return Ok{};
}

void ShownSlots::Hide(SizeClass size_class, SlotIndex slot) {
  device_.HideHost(arena_.Slot(size_class, slot));
  shown_[Raw(size_class)][Raw(slot)] = false;
}

}  // namespace moetier
