#include "tiers/store/expert_names.h"

#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace moetier {
namespace {

struct NamedRole {
  std::string_view suffix;
  TensorRole role;
};

// Whole suffixes: a match of the end alone would take ffn_gate_exps.bias for some other bias.
constexpr std::array<NamedRole, 12> kRoles = {{
    {"ffn_gate_exps.weight", TensorRole::kGate},
    {"ffn_up_exps.weight", TensorRole::kUp},
    {"ffn_down_exps.weight", TensorRole::kDown},
    {"ffn_gate_up_exps.weight", TensorRole::kGateUp},
    {"ffn_gate_exps.bias", TensorRole::kGateBias},
    {"ffn_up_exps.bias", TensorRole::kUpBias},
    {"ffn_down_exps.bias", TensorRole::kDownBias},
    {"ffn_gate_up_exps.bias", TensorRole::kGateUpBias},
    {"ffn_gate_inp.weight", TensorRole::kRouter},
    {"ffn_gate_inp.bias", TensorRole::kRouterBias},
    {"exp_probs_b.bias", TensorRole::kChoiceBias},
    {"ffn_norm_exps.weight", TensorRole::kEngine},  // arctic's norm in front of the router
}};

// Takes a decimal number without leading zeros off the front of `text`.
std::optional<uint32_t> TakeNumber(std::string_view& text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto digits = static_cast<size_t>(end - text.data());
  if (error != std::errc() || (text[0] == '0' && digits > 1)) return std::nullopt;
  text.remove_prefix(digits);
  return value;
}

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// ffn_gate.7.weight: one tensor an expert, as converters wrote before experts were stacked.
bool IsOneExpertATensor(std::string_view suffix) {
  if (!TakePrefix(suffix, "ffn_gate.") && !TakePrefix(suffix, "ffn_up.") &&
      !TakePrefix(suffix, "ffn_down.")) {
    return false;
  }
  return TakeNumber(suffix).has_value() && (suffix == ".weight" || suffix == ".bias");
}

ClassifiedTensor Unmatched(std::string_view hint) { return {TensorRole::kUnmatched, 0, hint}; }

}  // namespace

ClassifiedTensor ClassifyTensor(std::string_view name) {
  std::string_view rest = name;
  if (TakePrefix(rest, "blk.")) {
    const std::optional<uint32_t> layer = TakeNumber(rest);
    if (layer && TakePrefix(rest, ".")) {
      for (const NamedRole& known : kRoles) {
        if (rest == known.suffix) return {known.role, *layer, {}};
      }
      if (IsOneExpertATensor(rest)) {
        return Unmatched(
            "one tensor an expert is an old form; convert the model again with a current "
            "llama.cpp, which stacks experts in ffn_*_exps");
      }
      if (rest.ends_with("_exps.scale") || rest.ends_with("_exps.input_scale")) {
        return Unmatched("per-expert scales are not served");
      }
    }
  }
  if (name.find("_exps") != std::string_view::npos ||
      name.find("experts") != std::string_view::npos) {
    return Unmatched("no expert tensor of GGUF has that name");
  }
  return {};
}

}  // namespace moetier
