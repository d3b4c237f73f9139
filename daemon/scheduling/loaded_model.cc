#include "daemon/scheduling/loaded_model.h"

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
