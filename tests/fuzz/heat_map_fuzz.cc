#include <string_view>

#include "base/check.h"
#include "daemon/ctl/heat_map.h"

// A heat map from hostile text; what is accepted fits the model that it names, in finite heats, and
// comes back from an export of these.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace moetier;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto map = ParseHeatMap(text, "fuzz");
  if (!map) return 0;
  ExpertCounts model;
  for (const auto& [layer, experts] : map->layers) {
    uint32_t count = map->experts_said.value_or(0);
    if (map->fingerprint) count = static_cast<uint32_t>(experts.size());
    if (count > 4096) return 0;
    for (const auto& expert : experts) count = std::max(count, expert.expert + 1);
    model[layer] = count;
  }
  const uint64_t fingerprint = map->fingerprint.value_or(1);
  const auto heats = FitHeatMap(*map, model, fingerprint);
  if (!heats) return 0;
  const auto again = ParseHeatMap(HeatMapText(*heats, fingerprint, "m"), "export");
  MOE_CHECK(again.has_value(), "an export is refused: {}", again.error().message);
  const auto fitted = FitHeatMap(*again, model, fingerprint);
  MOE_CHECK(fitted.has_value() && *fitted == *heats, "an export changes {} layers", model.size());
  return 0;
}
