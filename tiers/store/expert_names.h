#ifndef MOETIER_TIERS_STORE_EXPERT_NAMES_H_
#define MOETIER_TIERS_STORE_EXPERT_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moetier {

// What a tensor is to an expert store, by its exact name blk.N.SUFFIX.
enum class TensorRole : uint8_t {
  kGate,        // ffn_gate_exps.weight
  kUp,          // ffn_up_exps.weight
  kDown,        // ffn_down_exps.weight
  kGateUp,      // ffn_gate_up_exps.weight: each expert's gate rows, then its up rows
  kGateBias,    // ffn_gate_exps.bias
  kUpBias,      // ffn_up_exps.bias
  kDownBias,    // ffn_down_exps.bias
  kGateUpBias,  // ffn_gate_up_exps.bias
  kRouter,      // ffn_gate_inp.weight
  kRouterBias,  // ffn_gate_inp.bias, added to the scores
  kChoiceBias,  // exp_probs_b.bias, added for the choice only
  kEngine,      // everything else: dense layers, attention, shared experts (ffn_*_shexp)
  kUnmatched,   // looks like expert weights but has none of the names above
};
inline constexpr size_t kLayerRoles = static_cast<size_t>(TensorRole::kEngine);

struct ClassifiedTensor {
  TensorRole role = TensorRole::kEngine;
  uint32_t layer = 0;     // of the roles before kEngine
  std::string_view hint;  // of kUnmatched: what to do
};

ClassifiedTensor ClassifyTensor(std::string_view name);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_EXPERT_NAMES_H_
