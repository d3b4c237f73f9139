#include "daemon/ctl/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace moetier {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "moetier-heat";
constexpr uint32_t kVersion = 1;
constexpr uint32_t kMostLayers = 1024;   // more than any model that is served has
constexpr uint32_t kMostExperts = 4096;  // of a layer, likewise
constexpr size_t kMostTopics = 1024;
// A ranked list stands for so many tokens in all: what the engines do soon outweighs it.
constexpr double kRankedTokens = 128;
constexpr size_t kFewest = 2;  // a row of one expert says nothing about the router

// Where in the file, for messages.
struct Place {
  const std::string& file;
  std::string at;
  [[nodiscard]] Error Refuse(std::string_view what) const {
    return Error{ErrorCode::kInvalidArgument, Reason::kBadShape,
                 fmt::format("{}: {}{}{}", file, at, at.empty() ? "" : ": ", what)};
  }
  [[nodiscard]] Place In(const std::string& key) const {
    constexpr size_t kShown = 40;
    const std::string shown = key.size() > kShown ? key.substr(0, kShown) + "..." : key;
    return {file, at.empty() ? shown : at + "." + shown};
  }
};

template <typename T>
std::optional<T> ParseWhole(std::string_view text, int base = 10) {
  T value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  if (text.empty() || error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

std::optional<uint32_t> SmallNumber(const Json& value, uint32_t most) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > most) return std::nullopt;
  return value.get<uint32_t>();
}

// {"N": [...], ...}: `take(layer, list, place)` for each.
template <typename Take>
Status ForEachLayer(const Json& layers, const Place& place, Take take) {
  if (!layers.is_object()) return place.Refuse("an object of layers is expected here");
  if (layers.size() > kMostLayers) {
    return place.Refuse(fmt::format("{} layers, at most {} are read", layers.size(), kMostLayers));
  }
  for (const auto& [key, list] : layers.items()) {
    const Place here = place.In(key);
    const std::optional<uint16_t> layer = ParseWhole<uint16_t>(key);
    if (!layer) return here.Refuse("a layer is named by its block number, \"0\" to \"65535\"");
    if (!list.is_array()) return here.Refuse("a list is expected here");
    if (list.size() > kMostExperts) {
      return here.Refuse(fmt::format("{} experts, at most {} are read", list.size(), kMostExperts));
    }
    RETURN_IF_ERROR(take(*layer, list, here));
  }
  return Ok{};
}

void FlagEqualHeats(uint32_t layer, const std::vector<HeatMap::Expert>& experts, HeatMap& map) {
  if (experts.size() < kFewest) return;
  const float first = experts.front().heat;
  const bool equal = std::all_of(experts.begin(), experts.end(),
                                 [first](const auto& expert) { return expert.heat == first; });
  if (!equal) return;
  map.suspect.push_back(
      first == 0 ? fmt::format("blk.{}: no expert has any heat", layer)
                 : fmt::format("blk.{}: all {} experts have the same heat", layer, experts.size()));
}

Status ReadExportLayer(uint32_t layer, const Json& list, const Place& place, HeatMap& map) {
  std::vector<HeatMap::Expert>& experts = map.layers[layer];
  for (const Json& value : list) {
    const double heat = value.is_number() ? value.get<double>() : -1;
    if (!(heat >= 0) || !std::isfinite(static_cast<float>(heat))) {
      return place.Refuse(fmt::format("expert {}: its heat is no number from 0 to {:.3g}",
                                      experts.size(), std::numeric_limits<float>::max()));
    }
    experts.push_back({static_cast<uint32_t>(experts.size()), static_cast<float>(heat)});
  }
  FlagEqualHeats(layer, experts, map);
  return Ok{};
}

Result<HeatMap> ReadExport(const Json& root, const Place& place) {
  HeatMap map;
  map.shape = "an export of moetierctl";
  const Json version = root.value("version", Json());
  if (SmallNumber(version, kVersion) != kVersion) {
    return place.In("version").Refuse(fmt::format("only version {} can be read", kVersion));
  }
  const Json fingerprint = root.value("fingerprint", Json());
  if (fingerprint.is_string()) {
    map.fingerprint = ParseWhole<uint64_t>(fingerprint.get_ref<const std::string&>(), 16);
  }
  if (!map.fingerprint) return place.In("fingerprint").Refuse("16 hexadecimal digits are expected");
  RETURN_IF_ERROR(ForEachLayer(root.value("layers", Json()), place.In("layers"),
                               [&](uint32_t layer, const Json& list, const Place& here) {
                                 return ReadExportLayer(layer, list, here, map);
                               }));
  return map;
}

using Ranking = std::vector<uint32_t>;  // expert numbers, the hottest first
struct Topic {
  std::map<uint32_t, Ranking> layers;
  double weight = 1;
};

Result<Ranking> ReadRanking(const Json& list, const Place& place) {
  Ranking ranking;
  std::set<uint32_t> seen;
  for (const Json& value : list) {
    const std::optional<uint32_t> expert = SmallNumber(value, kMostExperts - 1);
    if (!expert) {
      return place.Refuse(
          fmt::format("entry {} is no expert's number, 0 to {}", ranking.size(), kMostExperts - 1));
    }
    if (!seen.insert(*expert).second) {
      return place.Refuse(fmt::format("expert {} is listed twice", *expert));
    }
    ranking.push_back(*expert);
  }
  return ranking;
}

Result<Topic> ReadTopic(const Json& json, const Place& place) {
  Topic topic;
  if (!json.is_object()) return place.Refuse("an object is expected here");
  // The most frequent, where a file has them; else those that the topic prefers.
  for (const char* key : {"per_layer_top", "per_layer_domain_preferred"}) {
    const auto lists = json.find(key);
    if (lists == json.end()) continue;
    RETURN_IF_ERROR(ForEachLayer(
        *lists, place.In(key), [&](uint32_t layer, const Json& list, const Place& here) -> Status {
          ASSIGN_OR_RETURN(topic.layers[layer], ReadRanking(list, here));
          return Ok{};
        }));
    const Json total = json.value("total_slots", Json());
    topic.weight = total.is_number() ? total.get<double>() : 0;
    return topic;
  }
  return place.Refuse("there is neither per_layer_top nor per_layer_domain_preferred");
}

// Rows that a router with equal or broken scores leaves: 0, 1, 2, ... in order, or the same for
// every topic.
void FlagRankings(const std::map<std::string, Topic>& topics, HeatMap& map) {
  for (const auto& [layer, experts] : map.layers) {
    std::vector<const Ranking*> rows;
    for (const auto& [name, topic] : topics) {
      const auto row = topic.layers.find(layer);
      if (row != topic.layers.end() && row->second.size() >= kFewest) rows.push_back(&row->second);
    }
    if (rows.empty()) continue;
    const Ranking& first = *rows.front();
    size_t longest = 0;
    for (const Ranking* row : rows) longest = std::max(longest, row->size());
    const bool same =
        std::all_of(rows.begin(), rows.end(), [&](const Ranking* row) { return *row == first; });
    const bool counts_up = std::all_of(rows.begin(), rows.end(), [](const Ranking* row) {
      return std::is_sorted(row->begin(), row->end()) && row->back() == row->size() - 1;
    });
    if (counts_up) {
      map.suspect.push_back(fmt::format("blk.{}: the list is just 0 to {}", layer, longest - 1));
    } else if (same && rows.size() > 1) {
      map.suspect.push_back(fmt::format("blk.{}: the same {} experts in all {} topics", layer,
                                        first.size(), rows.size()));
    }
  }
}

// The longest list's first gets 1 and its last the least; a shorter list's get as much as that
// list's last ones, so that a layer of which little is known is no hotter than others.
void AddRankings(const std::map<std::string, Topic>& topics, HeatMap& map) {
  size_t longest = 1;
  bool weighted = true;
  double sum = 0;
  for (const auto& [name, topic] : topics) {
    weighted = weighted && std::isfinite(topic.weight) && topic.weight > 0;
    sum += topic.weight;
    for (const auto& [layer, ranking] : topic.layers) longest = std::max(longest, ranking.size());
  }
  weighted = weighted && std::isfinite(sum);
  for (const auto& [name, topic] : topics) {
    const double share = weighted ? topic.weight / sum : 1 / static_cast<double>(topics.size());
    for (const auto& [layer, ranking] : topic.layers) {
      std::map<uint32_t, double> heats;
      for (const HeatMap::Expert& expert : map.layers[layer]) heats[expert.expert] = expert.heat;
      for (size_t rank = 0; rank < ranking.size(); ++rank) {
        const auto from_last = static_cast<double>(ranking.size() - rank);
        heats[ranking[rank]] += kRankedTokens * share * from_last / static_cast<double>(longest);
      }
      map.layers[layer].clear();
      for (const auto& [expert, heat] : heats) {
        map.layers[layer].push_back({expert, static_cast<float>(heat)});
      }
    }
  }
}

Result<HeatMap> ReadTopics(const Json& root, const Json& domains, const Place& place) {
  HeatMap map;
  map.shape = "a map of topics";
  map.layers_said = SmallNumber(root.value("num_layers", Json()), UINT32_MAX);
  map.experts_said = SmallNumber(root.value("num_experts", Json()), UINT32_MAX);
  if (domains.empty()) return place.In("domains").Refuse("there is no topic");
  if (domains.size() > kMostTopics) {
    return place.In("domains").Refuse(
        fmt::format("{} topics, at most {} are read", domains.size(), kMostTopics));
  }
  std::map<std::string, Topic> topics;
  for (const auto& [name, json] : domains.items()) {
    ASSIGN_OR_RETURN(topics[name], ReadTopic(json, place.In("domains").In(name)));
  }
  AddRankings(topics, map);
  FlagRankings(topics, map);
  return map;
}

Error Misfit(std::string message) {
  return Error{ErrorCode::kInvalidArgument, Reason::kBadShape, std::move(message)};
}

std::string Range(const auto& layers) {
  if (layers.empty()) return "none";
  return fmt::format("{} (blk.{} to blk.{})", layers.size(), layers.begin()->first,
                     layers.rbegin()->first);
}

Status CheckLayers(const HeatMap& map, const ExpertCounts& model) {
  const bool same = map.layers.size() == model.size() &&
                    std::equal(map.layers.begin(), map.layers.end(), model.begin(),
                               [](const auto& a, const auto& b) { return a.first == b.first; });
  if (!same) {
    return Misfit(fmt::format("{} with layers {} does not fit a model with layers {}", map.shape,
                              Range(map.layers), Range(model)));
  }
  if (map.layers_said && *map.layers_said != model.size()) {
    return Misfit(fmt::format("{} of a model with {} layers does not fit one with {}", map.shape,
                              *map.layers_said, model.size()));
  }
  return Ok{};
}

Status CheckExperts(const HeatMap& map, uint32_t layer, uint32_t experts) {
  const std::vector<HeatMap::Expert>& listed = map.layers.at(layer);
  const bool whole = map.fingerprint.has_value();  // an export has all experts
  if (whole && listed.size() != experts) {
    return Misfit(fmt::format("blk.{}: {} has {} experts, the model has {}", layer, map.shape,
                              listed.size(), experts));
  }
  if (map.experts_said && *map.experts_said != experts) {
    return Misfit(fmt::format("{} of a model with {} experts a layer does not fit one with {}",
                              map.shape, *map.experts_said, experts));
  }
  for (const HeatMap::Expert& expert : listed) {
    if (expert.expert < experts) continue;
    return Misfit(fmt::format("blk.{}: {} names expert {}, the model has {}", layer, map.shape,
                              expert.expert, experts));
  }
  return Ok{};
}

}  // namespace

Result<HeatMap> ParseHeatMap(std::string_view text, const std::string& name) {
  const Place place{name, ""};
  const Json root = Json::parse(text, nullptr, false);
  if (!root.is_object()) return place.Refuse("it is no JSON object");
  if (root.value("format", Json()) == Json(kFormat)) return ReadExport(root, place);
  if (const auto domains = root.find("domains"); domains != root.end() && domains->is_object()) {
    return ReadTopics(root, *domains, place);
  }
  return place.Refuse(
      fmt::format("it is neither an export of `moetierctl heat export` (\"format\": "
                  "\"{}\") nor a map of topics (\"domains\")",
                  kFormat));
}

Result<std::map<uint32_t, std::vector<float>>> FitHeatMap(const HeatMap& map,
                                                          const ExpertCounts& model,
                                                          uint64_t fingerprint) {
  if (map.fingerprint && *map.fingerprint != fingerprint) {
    return Misfit(fmt::format("{} of the model {:016x} does not fit {:016x}", map.shape,
                              *map.fingerprint, fingerprint));
  }
  RETURN_IF_ERROR(CheckLayers(map, model));
  std::map<uint32_t, std::vector<float>> heats;
  for (const auto& [layer, experts] : model) {
    RETURN_IF_ERROR(CheckExperts(map, layer, experts));
    heats[layer].resize(experts);
    for (const HeatMap::Expert& expert : map.layers.at(layer)) {
      heats[layer][expert.expert] = expert.heat;
    }
  }
  return heats;
}

std::string HeatMapText(const std::map<uint32_t, std::vector<float>>& layers, uint64_t fingerprint,
                        const std::string& model) {
  nlohmann::ordered_json root;
  root["format"] = kFormat;
  root["version"] = kVersion;
  root["model"] = model;
  root["fingerprint"] = fmt::format("{:016x}", fingerprint);
  nlohmann::ordered_json& lists = root["layers"] = nlohmann::ordered_json::object();
  for (const auto& [layer, heats] : layers) lists[std::to_string(layer)] = heats;
  return root.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moetier
