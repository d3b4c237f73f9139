#ifndef MOETIER_TIERS_STORE_MOE_ARCHITECTURES_H_
#define MOETIER_TIERS_STORE_MOE_ARCHITECTURES_H_

#include <optional>
#include <string_view>

#include "kernels/expert_shape.h"
#include "tiers/store/model_geometry.h"

namespace moetier {

// What general.architecture tells of a model's routed experts.
struct MoeArchitecture {
  std::string_view name;
  // Empty for one whose experts we cannot compute; `refusal` then says why.
  std::optional<kernels::Activation> activation;
  RouterScore router_score = RouterScore::kSoftmax;  // where expert_gating_func is absent
  std::string_view refusal;
};

// nullptr for an architecture we do not know.
const MoeArchitecture* FindMoeArchitecture(std::string_view name);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_MOE_ARCHITECTURES_H_
