#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "tests/support/ledger_script.h"
#include "tests/support/recorded_routes.h"

namespace moetier {
namespace {

struct Load {
  const char* name;
  uint32_t keys;
  std::vector<Route> sessions;
};

std::vector<Load> Loads() {
  const auto& granite = GraniteRoutes();
  std::vector<Load> loads;
  std::vector<Route> all;
  for (const auto& [name, route] : granite) {
    loads.push_back({name.c_str(), kGraniteKeys, {route}});
    all.push_back(route);
  }
  loads.push_back({"3 prompts at once", kGraniteKeys, all});
  loads.push_back({"demo", kDemoKeys, {DemoRoute()}});
  // A session decodes its own quarter of the recorded tokens.
  std::vector<Route> quarters;
  const auto quarter = static_cast<std::ptrdiff_t>(DemoRoute().size() / 4);
  for (auto from = DemoRoute().begin(); from != DemoRoute().end(); from += quarter) {
    quarters.emplace_back(from, from + quarter);
  }
  loads.push_back({"demo, 4 at once", kDemoKeys, quarters});
  return loads;
}

// The sessions' calls in turn, each session `kStagger` turns behind the one before it, so that
// their layers differ. The share of picks that were resident.
double HitRate(const Load& load, uint32_t slots, const std::string& policy) {
  constexpr size_t kStagger = 7;
  LedgerScript script({.slot_count = slots, .policy = policy, .key_count = load.keys});
  size_t longest = 0;
  for (const Route& route : load.sessions) longest = std::max(longest, route.size());
  for (size_t turn = 0; turn < longest + kStagger * load.sessions.size(); ++turn) {
    for (size_t session = 0; session < load.sessions.size(); ++session) {
      const size_t visit = turn - session * kStagger;  // wraps to beyond the end before its start
      if (visit >= load.sessions[session].size()) continue;
      const Group& group = load.sessions[session][visit];
      const WaveId wave = script.Reserve(group);
      for (uint32_t i = 0; i < group.size(); ++i) {
        if (!script.Ready(wave, i)) script.Land(script.ReadOf(group[i]));
      }
      script.Release(wave);
    }
  }
  const LedgerCounts counts = script.counts();
  return static_cast<double>(counts.hits) / static_cast<double>(counts.hits + counts.misses);
}

TEST_CASE(
    "heat hits more often than lru wherever sessions share a pool of real routes, and no "
    "less often than lfu that looks at every slot",
    "[tiers]") {
  std::cout << fmt::format("{:<18} {:>5} {:>7} {:>7} {:>11} {:>7}\n", "hits, % of picks", "slots",
                           "lru", "clock", "lfu:32:500", "heat");
  for (const Load& load : Loads()) {
    for (const uint32_t percent : {10, 25, 50, 75}) {
      const auto slots = static_cast<uint32_t>(std::lround(load.keys * percent / 100.0));
      const double lru = HitRate(load, slots, "lru");
      const double heat = HitRate(load, slots, "heat");
      std::cout << fmt::format("{:<18} {:>3} % {:>7.1f} {:>7.1f} {:>11.1f} {:>7.1f}\n", load.name,
                               percent, 100 * lru, 100 * HitRate(load, slots, "clock"),
                               100 * HitRate(load, slots, "lfu:32:500"), 100 * heat);
      CAPTURE(load.name, percent);
      CHECK(heat >= HitRate(load, slots, "lfu:100000:500") - 0.002);
      if (load.sessions.size() == 1) continue;
      CHECK(heat > lru + (percent <= 50 ? 0.07 : 0.03));
    }
  }
}

TEST_CASE("heat keeps the decode stream's hits while another session sends large requests",
          "[tiers]") {
  // Between any two decoded tokens come requests of 512 rows that pick every expert of a layer.
  const Route& route = GraniteRoutes().at("code");
  const auto rate = [&](bool prefill) {
    LedgerScript script({.slot_count = 384, .policy = "heat", .key_count = kGraniteKeys});
    const auto use = [&](const Group& group, const LedgerScript::WaveOptions& options) {
      const WaveId wave = script.Reserve(group, options);
      uint32_t hits = 0;
      for (uint32_t i = 0; i < group.size(); ++i) {
        if (!script.Ready(wave, i)) script.Land(script.ReadOf(group[i]));
        if (script.Ready(wave, i)->resolution == Resolution::kHit) ++hits;
      }
      script.Release(wave);
      return hits;
    };
    uint32_t hits = 0;
    for (size_t visit = 0; visit < route.size(); ++visit) {
      hits += use(route[visit], {});
      if (!prefill || visit % kGraniteLayers != 0) continue;
      for (uint32_t layer = 0; layer < kGraniteLayers; ++layer) {
        Group all;
        for (uint32_t expert = 0; expert < 32; ++expert) all.push_back(layer * 32 + expert);
        use(all, {.admission = Admission::kCold, .heat = std::vector<float>(32, 8 / 32.0F)});
      }
    }
    return 100.0 * hits / static_cast<double>(route.size() * kGraniteTopK);
  };
  const double alone = rate(false);
  const double beside = rate(true);
  std::cout << fmt::format("decode beside prefill: {:.1f} % of picks hit, {:.1f} % alone\n", beside,
                           alone);
  CHECK(beside > alone - 2);
}

}  // namespace
}  // namespace moetier
