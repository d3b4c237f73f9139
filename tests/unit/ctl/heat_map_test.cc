#include "daemon/ctl/heat_map.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

namespace moetier {
namespace {

// Layers 0 and 3 of 8 experts.
const ExpertCounts kModel = {{0, 8}, {3, 8}};
constexpr uint64_t kFingerprint = 0xabc;

HeatMap Parse(const std::string& text) {
  Result<HeatMap> map = ParseHeatMap(text, "map.json");
  INFO((map ? "" : map.error().message));
  REQUIRE(map.has_value());
  return std::move(map).value();
}

std::string Refusal(const std::string& text) {
  const Result<HeatMap> map = ParseHeatMap(text, "map.json");
  REQUIRE_FALSE(map.has_value());
  CHECK(map.error().reason == Reason::kBadShape);
  return map.error().message;
}

// Topics by name, each with the lists of both layers.
std::string Topics(const std::string& key, const std::string& first, const std::string& second,
                   const std::string& more = "") {
  return fmt::format(R"({{"model": "m", "top_k": 4, {}"domains": {{
      "code": {{"{}": {{"0": {}, "3": [5, 1, 2]}}, "total_slots": 300}},
      "chat": {{"{}": {{"0": {}, "3": [2, 5, 7]}}, "total_slots": 100}}}}}})",
                     more, key, first, key, second);
}

std::vector<uint32_t> RankingOf(const std::map<uint32_t, std::vector<float>>& heats,
                                uint32_t layer) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < heats.at(layer).size(); ++i) {
    if (heats.at(layer)[i] > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return heats.at(layer)[a] > heats.at(layer)[b]; });
  return order;
}

}  // namespace

TEST_CASE("heat map: what is exported is imported again, to the bit", "[ctl]") {
  const std::map<uint32_t, std::vector<float>> heats = {
      {0, {0, 1.25f, 0.1f, 3e-30f, 7, 8, 9, 123456.78f}}, {3, {1, 2, 3, 4, 5, 6, 7, 8}}};
  const HeatMap map = Parse(HeatMapText(heats, kFingerprint, "qwen \"3\""));
  CHECK(map.suspect.empty());
  CHECK(FitHeatMap(map, kModel, kFingerprint).value() == heats);
}

TEST_CASE("heat map: an export of another model, of other layers or experts is refused", "[ctl]") {
  const HeatMap map = Parse(HeatMapText({{0, {1, 2}}, {3, {1, 2}}}, kFingerprint, "m"));
  CHECK(FitHeatMap(map, {{0, 2}, {3, 2}}, kFingerprint).has_value());
  CHECK_THAT(FitHeatMap(map, {{0, 2}, {3, 2}}, 1).error().message,
             Catch::Contains("0000000000000abc does not fit 0000000000000001"));
  CHECK_THAT(FitHeatMap(map, kModel, kFingerprint).error().message,
             Catch::Contains("has 2 experts, the model has 8"));
  CHECK_THAT(FitHeatMap(map, {{0, 2}}, kFingerprint).error().message,
             Catch::Contains("layers 2 (blk.0 to blk.3) does not fit a model with layers 1"));
}

TEST_CASE("heat map: an export's row without heat, or with the same everywhere, is suspect",
          "[ctl]") {
  const HeatMap map = Parse(HeatMapText({{0, {0, 0, 0}}, {1, {2, 2, 2}}, {2, {1, 2, 2}}}, 1, "m"));
  REQUIRE(map.suspect.size() == 2);
  CHECK(map.suspect[0] == "blk.0: no expert has any heat");
  CHECK(map.suspect[1] == "blk.1: all 3 experts have the same heat");
}

TEST_CASE("heat map: the order of a topic's list is kept, not that of its numbers", "[ctl]") {
  const HeatMap map = Parse(R"({"domains": {"all": {"per_layer_domain_preferred":
      {"0": [7, 0, 5, 2], "3": [1, 6]}}}})");
  const auto heats = FitHeatMap(map, kModel, kFingerprint).value();
  CHECK(RankingOf(heats, 0) == std::vector<uint32_t>{7, 0, 5, 2});
  CHECK(RankingOf(heats, 3) == std::vector<uint32_t>{1, 6});
  // A layer with a short list is no hotter for that.
  CHECK(heats.at(3)[1] < heats.at(0)[7]);
}

TEST_CASE("heat map: topics count by their totals where all have them, else alike", "[ctl]") {
  const auto weighted = FitHeatMap(Parse(Topics("per_layer_top", "[6, 4]", "[4, 6]")), kModel, 1);
  CHECK(RankingOf(weighted.value(), 0) == std::vector<uint32_t>{6, 4});
  std::string alike = Topics("per_layer_top", "[6, 4]", "[4, 6, 1]");
  alike.replace(alike.find("\"total_slots\": 300"), 18, "\"total_lines\": 300");
  CHECK(RankingOf(FitHeatMap(Parse(alike), kModel, 1).value(), 0) ==
        std::vector<uint32_t>{4, 6, 1});
}

TEST_CASE("heat map: the experts used most are taken before those that a topic prefers", "[ctl]") {
  const HeatMap map = Parse(R"({"domains": {"all": {
      "per_layer_domain_preferred": {"0": [1], "3": [1]},
      "per_layer_top": {"0": [2], "3": [4]}, "total_slots": 5}}})");
  CHECK(RankingOf(FitHeatMap(map, kModel, 1).value(), 3) == std::vector<uint32_t>{4});
}

TEST_CASE("heat map: lists that a broken router leaves are suspect, and taken all the same",
          "[ctl]") {
  const HeatMap counts_up =
      Parse(Topics("per_layer_domain_preferred", "[0, 1, 2, 3]", "[0, 1, 2]"));
  REQUIRE(counts_up.suspect.size() == 1);
  CHECK(counts_up.suspect[0] == "blk.0: the list is just 0 to 3");
  const HeatMap same = Parse(Topics("per_layer_domain_preferred", "[4, 1, 2]", "[4, 1, 2]"));
  REQUIRE(same.suspect.size() == 1);
  CHECK(same.suspect[0] == "blk.0: the same 3 experts in all 2 topics");
  CHECK(FitHeatMap(same, kModel, 1).has_value());
}

TEST_CASE("heat map: a map of topics of other layers or experts is refused with the numbers",
          "[ctl]") {
  const HeatMap map = Parse(Topics("per_layer_top", "[7, 1]", "[2, 3]"));
  CHECK_THAT(FitHeatMap(map, {{0, 4}, {3, 8}}, 1).error().message,
             Catch::Contains("blk.0: a map of topics names expert 7, the model has 4"));
  CHECK_THAT(FitHeatMap(map, {{1, 8}, {3, 8}}, 1).error().message,
             Catch::Contains("2 (blk.0 to blk.3)"));
  const HeatMap said =
      Parse(Topics("per_layer_top", "[7, 1]", "[2, 3]", R"("num_layers": 2, "num_experts": 16, )"));
  CHECK_THAT(FitHeatMap(said, kModel, 1).error().message,
             Catch::Contains("16 experts a layer does not fit one with 8"));
}

TEST_CASE("heat map: what is none is refused with what and where", "[ctl]") {
  CHECK(Refusal("") == "map.json: it is no JSON object");
  CHECK(Refusal("[1]") == "map.json: it is no JSON object");
  CHECK_THAT(Refusal("{}"), Catch::Contains("it is neither an export"));
  CHECK_THAT(Refusal(R"({"domains": {}})"), Catch::Contains("domains: there is no topic"));
  CHECK_THAT(Refusal(R"({"domains": {"a": 3}})"), Catch::Contains("domains.a: an object"));
  CHECK_THAT(Refusal(Topics("per_layer_top", "[1, 1]", "[2]")),
             Catch::Contains("domains.code.per_layer_top.0: expert 1 is listed twice"));
  CHECK_THAT(Refusal(Topics("per_layer_top", "[-1]", "[2]")), Catch::Contains("entry 0 is no"));
  CHECK_THAT(Refusal(Topics("per_layer_top", "[4096]", "[2]")), Catch::Contains("0 to 4095"));
  CHECK_THAT(Refusal(R"({"domains": {"a": {"per_layer_top": {"x": []}}}})"),
             Catch::Contains("named by its block number"));
  CHECK_THAT(Refusal(R"({"format": "moetier-heat", "version": 2})"), Catch::Contains("version 1"));
  CHECK_THAT(Refusal(R"({"format": "moetier-heat", "version": 1, "fingerprint": "zz"})"),
             Catch::Contains("16 hexadecimal digits"));
  CHECK_THAT(Refusal(R"({"format": "moetier-heat", "version": 1, "fingerprint": "1f",
                         "layers": {"0": [1, -2]}})"),
             Catch::Contains("layers.0: expert 1: its heat is no number from 0 to 3.4e+38"));
}

}  // namespace moetier
