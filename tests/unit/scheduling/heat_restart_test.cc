#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <iostream>

#include "tests/support/demo_core.h"

namespace moetier {
namespace {

using testing::AtOnce;
using testing::DemoCore;

}  // namespace

TEST_CASE(
    "After a restart the first 100 tokens hit more often with the heat of before than without",
    "[scheduling]") {
  struct Rates {
    double first_10;
    double first_100;
  };
  const auto after_restart = [](const std::string& policy, bool preheat) {
    DemoCore host;
    host.Start(policy, preheat);
    host.HitRate(0, 300);
    host.Start(policy, preheat);
    const double first_10 = host.HitRate(500, 10);
    return Rates{first_10, first_10 / 10 + host.HitRate(510, 90) * 9 / 10};
  };
  for (const std::string policy : {"lru", "heat"}) {
    const Rates warm = after_restart(policy, true);
    const Rates cold = after_restart(policy, false);
    std::cout << fmt::format(
        "restart, RAM 50 %, {}: of the picks of the first 10 tokens {:.1f} % hit with preheat and "
        "{:.1f} % without, of the first 100 {:.1f} % and {:.1f} %\n",
        policy, warm.first_10, cold.first_10, warm.first_100, cold.first_100);
    CHECK(warm.first_10 > cold.first_10 + 10);
    // A cold start misses each slot once more at most: 4 % of the picks of 100 tokens.
    CHECK(warm.first_100 > cold.first_100);
  }
}

TEST_CASE("A model's heat outlives its unload and a restart, and what is damaged is no obstacle",
          "[scheduling]") {
  DemoCore host;
  host.Start("lru", true);
  host.HitRate(0, 20);
  const ModelHeat before = host.core->GetHeat(host.core->FindModel("demo")->id).value();
  const std::string path = host.HeatFile();
  CHECK_FALSE(std::filesystem::exists(path));  // it is young
  REQUIRE(host.core->UnloadModel("demo").has_value());
  CHECK(std::filesystem::exists(path));
  host.Start("lru", true);
  CHECK(host.core->GetHeat(host.core->FindModel("demo")->id).value() == before);
  host.core.reset();
  std::filesystem::resize_file(path, 100);
  host.Start("lru", true);
  const std::vector<std::string> warnings = host.core->Snapshot().warnings;
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Catch::StartsWith("model demo: heat file " + path + " is damaged: "));
  CHECK(std::filesystem::exists(path + ".damaged"));
}

TEST_CASE("Heat that is set decides what is preheated, and another model's is refused",
          "[scheduling]") {
  DemoCore host;
  host.Start("lru", true);
  const ModelId id = host.core->FindModel("demo")->id;
  ModelHeat heat = host.core->GetHeat(id).value();
  heat.layers[2].heat[7] = 9;
  heat.layers[5].heat[30] = 4;
  REQUIRE(host.core->SetHeat(id, heat).has_value());
  REQUIRE(host.core->AwaitPreheat(id, AtOnce).has_value());
  CHECK(host.core->GetHeat(id).value() == heat);
  // They guess no call: prefetches are counted without them.
  CHECK(host.core->Snapshot().prefetch.totals.started == 0);
  CHECK(host.core->Snapshot().preheat.started == 2);
  CHECK(host.Run(2, {7, 8, 9, 10}).hits == 1);
  CHECK(host.Run(5, {1, 2, 3, 30}).hits == 1);
  CHECK(host.core->Snapshot().preheat.used == 2);
  CHECK(host.core->Snapshot().preheat.wasted == 0);
  ++heat.fingerprint;
  CHECK(host.core->SetHeat(id, heat).error().reason == Reason::kBadShape);
}

}  // namespace moetier
