#ifndef MOETIER_ADAPTERS_LLAMA_CPP_EXPERT_NAME_H_
#define MOETIER_ADAPTERS_LLAMA_CPP_EXPERT_NAME_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace moetier::ggml {

enum class ExpertRole : uint8_t { kGate, kUp, kDown, kGateUp };

struct ExpertName {
  uint32_t layer;  // block number of the model file
  ExpertRole role;
  friend bool operator==(const ExpertName&, const ExpertName&) = default;
};

// "blk.3.ffn_gate_exps.weight" is {3, kGate}; none for any other tensor, such as a bias or the
// parts of a LoRA adapter ("blk.3.ffn_gate_exps.weight.lora_a").
std::optional<ExpertName> ParseExpertName(std::string_view name);

}  // namespace moetier::ggml

#endif  // MOETIER_ADAPTERS_LLAMA_CPP_EXPERT_NAME_H_
