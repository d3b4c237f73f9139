#include "daemon/scheduling/loaded_model.h"

#include <algorithm>

#include "base/text_size.h"

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

std::optional<std::string> BelowWorkingSet(const LoadedModel& model) {
  const ModelGeometry& geometry = *model.geometry;
  uint32_t slots = 0;
  for (const auto& ledger : model.ledgers)
    slots += ledger->place_count() - ledger->counts().retired;
  const auto working_set = static_cast<uint32_t>(geometry.layers.size()) * geometry.top_k;
  if (slots >= working_set || slots == geometry.TotalExperts()) return std::nullopt;
  return fmt::format(
      "model {}: {} RAM slots are fewer than one token's {} experts ({} layers x top-{}); hardly "
      "any expert will be found resident: raise its ram budget from {}",
      model.name, slots, working_set, geometry.layers.size(), geometry.top_k,
      FormatSize(model.budget));
}

}  // namespace moetier
