#ifndef MOETIER_DAEMON_CTL_HEAT_MAP_H_
#define MOETIER_DAEMON_CTL_HEAT_MAP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

// Files that say which experts of a model are hot, as hostile bytes.

namespace moetier {

inline constexpr Bytes kMaxHeatMapBytes = 64_MiB;  // a million heats as text, and more

// What a file says, of whichever model.
struct HeatMap {
  struct Expert {
    uint32_t expert = 0;
    float heat = 0;  // uses by one token
  };
  std::string shape;                    // for messages: "moetierctl's export", "a map of topics"
  std::optional<uint64_t> fingerprint;  // of the model, where the file says it
  std::optional<uint32_t> layers_said;  // where the file says them, apart from its lists
  std::optional<uint32_t> experts_said;
  // By block number. An export has all experts in order; a map of topics those that it lists.
  std::map<uint32_t, std::vector<Expert>> layers;
  // Rows that look like those of a router whose scores were all equal: what it says and where.
  std::vector<std::string> suspect;
};

// Reads either
//   an export:       {"format": "moetier-heat", "version": 1, "fingerprint": HEX,
//                     "layers": {"N": [heat, ...]}}
//   a map of topics: {"domains": {TOPIC: {"per_layer_top" or "per_layer_domain_preferred":
//                     {"N": [expert, ...]}}}}, each list the hottest first. It has no counts, so
//                     the first of a list gets the most heat and each next one less; topics count
//                     by their total_slots where all have them, else alike.
// `name` is for messages. kInvalidArgument, kBadShape says what is wrong and where.
Result<HeatMap> ParseHeatMap(std::string_view text, const std::string& name);

// Experts of each layer of a model, by block number.
using ExpertCounts = std::map<uint32_t, uint32_t>;

// The heats of every expert of each of the model's layers, 0 where the map lists none. A map of
// other layers or experts is refused with the numbers of both, and so is another fingerprint.
Result<std::map<uint32_t, std::vector<float>>> FitHeatMap(const HeatMap& map,
                                                          const ExpertCounts& model,
                                                          uint64_t fingerprint);

// An export of these heats.
std::string HeatMapText(const std::map<uint32_t, std::vector<float>>& layers, uint64_t fingerprint,
                        const std::string& model);

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_HEAT_MAP_H_
