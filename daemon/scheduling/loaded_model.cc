#include "daemon/scheduling/loaded_model.h"

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

}  // namespace moetier
