#include "adapters/llama_cpp/expert_name.h"

#include <array>
#include <charconv>
#include <utility>

namespace moetier::ggml {

std::optional<ExpertName> ParseExpertName(std::string_view name) {
  constexpr std::string_view kBlock = "blk.";
  static constexpr std::array<std::pair<std::string_view, ExpertRole>, 4> kRoles{{
      {".ffn_gate_exps.weight", ExpertRole::kGate},
      {".ffn_up_exps.weight", ExpertRole::kUp},
      {".ffn_down_exps.weight", ExpertRole::kDown},
      {".ffn_gate_up_exps.weight", ExpertRole::kGateUp},
  }};
  if (!name.starts_with(kBlock)) return std::nullopt;
  name.remove_prefix(kBlock.size());
  ExpertName parsed{};
  const auto number = std::from_chars(name.data(), name.data() + name.size(), parsed.layer);
  if (number.ec != std::errc()) return std::nullopt;
  name.remove_prefix(static_cast<size_t>(number.ptr - name.data()));
  for (const auto& [suffix, role] : kRoles) {
    if (name != suffix) continue;
    parsed.role = role;
    return parsed;
  }
  return std::nullopt;
}

}  // namespace moetier::ggml
