#include "tiers/eviction_policy.h"

#include <charconv>
#include <optional>
#include <string>

#include "tiers/clock_policy.h"
#include "tiers/heat_policy.h"
#include "tiers/lfu_policy.h"
#include "tiers/lru_policy.h"
#include "tiers/static_policy.h"

namespace moetier {
namespace {

std::optional<uint32_t> ParseNumber(std::string_view text) {
  uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

// "32:500", what follows "lfu:".
std::optional<LfuPolicy::Options> ParseLfu(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::optional<uint32_t> window = ParseNumber(text.substr(0, colon));
  const std::optional<uint32_t> half_life = ParseNumber(text.substr(colon + 1));
  if (!window || *window == 0 || !half_life) return std::nullopt;
  return LfuPolicy::Options{.window = *window, .half_life = *half_life};
}

Error NoSuchPolicy(std::string_view name) {
  constexpr size_t kShown = 40;
  return Error{ErrorCode::kInvalidArgument, Reason::kBadConfig,
               fmt::format("eviction policy '{}{}' is not known; use lru, clock, static, heat, "
                           "heat:HALF_LIFE or lfu:WINDOW:HALF_LIFE (WINDOW at least 1, HALF_LIFE "
                           "in steps, 0 for never, such as lfu:32:0)",
                           name.substr(0, kShown), name.size() > kShown ? "..." : "")};
}

}  // namespace

Result<std::unique_ptr<EvictionPolicy>> EvictionPolicy::Create(std::string_view name,
                                                               const Sizes& sizes,
                                                               const Start& start) {
  using Policy = std::unique_ptr<EvictionPolicy>;
  if (name == "lru") return Policy(std::make_unique<LruPolicy>(sizes.slot_count));
  if (name == "clock") return Policy(std::make_unique<ClockPolicy>(sizes.slot_count));
  if (name == "static") return Policy(std::make_unique<StaticPolicy>(sizes, start.hot));
  if (name == "heat") {
    return Policy(std::make_unique<HeatPolicy>(sizes, HeatPolicy::kDefaultHalfLife, start.heat));
  }
  constexpr std::string_view kHeat = "heat:";
  if (name.starts_with(kHeat)) {
    if (const std::optional<uint32_t> half_life = ParseNumber(name.substr(kHeat.size()))) {
      return Policy(std::make_unique<HeatPolicy>(sizes, *half_life, start.heat));
    }
  }
  constexpr std::string_view kLfu = "lfu:";
  if (name.starts_with(kLfu)) {
    if (const auto options = ParseLfu(name.substr(kLfu.size()))) {
      return Policy(std::make_unique<LfuPolicy>(sizes, *options));
    }
  }
  return NoSuchPolicy(name);
}

}  // namespace moetier
