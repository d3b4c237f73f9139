#include "daemon/scheduling/loaded_model.h"

#include <algorithm>

namespace moetier {

bool LoadedModel::MustVerify(const ExpertKey& key) const {
  switch (landing_check) {
    case LandingCheck::kAlways:
      return true;
    case LandingCheck::kFirst:
      return !verified.at(key.layer)[Raw(key.expert)];
    case LandingCheck::kNever:
      return false;
  }
  return true;
}

void LoadedModel::NoteVerified(const ExpertKey& key) {
  if (landing_check == LandingCheck::kFirst) verified.at(key.layer)[Raw(key.expert)] = true;
}

uint32_t LoadedModel::RamRoom(SizeClass size_class) const {
  const size_t index = Raw(size_class);
  const uint32_t slots = ledgers[index]->slot_count();
  return slots - std::min(slots, pinned[index] + kept_in_ram[index].kept + SlotsForCalls());
}

Bytes LoadedModel::LeasableBytes() const {
  Bytes bytes;
  for (size_t i = 0; i < ledgers.size(); ++i) {
    const uint32_t in_ram = ledgers[i]->slot_count();
    uint32_t slots = in_ram - std::min(in_ram, SlotsForCalls());
    if (vram) slots += vram->ledger(SizeClass{static_cast<uint8_t>(i)}).slot_count();
    bytes += geometry->size_classes[i].slot_bytes * slots;
  }
  return bytes;
}

}  // namespace moetier
