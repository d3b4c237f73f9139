#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <nlohmann/json.hpp>

#include "daemon/scheduling/expert_core.h"
#include "tests/support/temp_folder.h"
#include "tiers/store/importer.h"

namespace moetier {
namespace {

constexpr uint32_t kLayers = 6;
constexpr uint32_t kTopK = 4;
constexpr uint32_t kHidden = 256;
const std::string kDemo = MOETIER_TEST_DATA "/demo-moe";

// The demo model's experts as its own router picked them, token by token and layer by layer.
const nlohmann::json& RecordedExperts() {
  static const nlohmann::json trace = [] {
    std::ifstream file(kDemo + "/routing-trace.json");
    return nlohmann::json::parse(file);
  }();
  return trace.at("experts");
}

GoOn AtOnce(const ModelProgress& /*progress*/) { return GoOn::kYes; }

// A state directory and a store of the demo model, and the daemons that come and go over them.
class Host {
 public:
  Host() {
    ImportOptions options;
    options.model_path = kDemo + "/moetier-demo-Q4_K_M.gguf";
    options.store_directory = folder.File("store");
    const Result<ImportSummary> imported = ImportModel(options, HostFileSystem(), nullptr);
    INFO((imported.has_value() ? "" : imported.error().message));
    REQUIRE(imported.has_value());
  }

  void Start(const std::string& policy, bool preheat) {
    ExpertCore::Options options;
    options.tune_kernels = false;
    options.cpu_workers = 1;
    options.pin_workers = false;
    options.heat.directory = folder.File("state/heat");
    core = ExpertCore::Create(options, clock, log).value();
    const Status loaded = core->Load({.name = "demo",
                                      .directory = folder.File("store"),
                                      .ram = Percent{50},
                                      .policy = policy,
                                      .preheat = preheat},
                                     AtOnce);
    INFO((loaded.has_value() ? "" : loaded.error().message));
    REQUIRE(loaded.has_value());
    REQUIRE(core->AwaitPreheat(core->FindModel("demo")->id, AtOnce).has_value());
  }

  // The calls of these recorded tokens, one after another; the share of picks that were resident.
  double HitRate(uint32_t first_token, uint32_t tokens) {
    uint32_t hits = 0;
    for (uint32_t token = first_token; token < first_token + tokens; ++token) {
      for (uint32_t layer = 0; layer < kLayers; ++layer) {
        hits += Run(layer, RecordedExperts().at(token).at(layer)).hits;
      }
    }
    return 100.0 * hits / (tokens * kLayers * kTopK);
  }

  LayerOutput Run(uint32_t layer, const nlohmann::json& experts) {
    LayerCall call;
    call.model = core->FindModel("demo")->id;
    call.layer = static_cast<LayerIndex>(layer);
    call.rows = 1;
    call.top_k = kTopK;
    call.hidden.assign(kHidden, 0.5f);
    call.experts = experts.get<std::vector<uint16_t>>();
    call.weights.assign(kTopK, 0.25f);
    call.received = clock.Now();
    call.control = std::make_shared<CallControl>();
    std::promise<Result<LayerOutput>> answer;
    const Status taken = core->Submit(
        std::move(call), [&](Result<LayerOutput> result) { answer.set_value(std::move(result)); });
    REQUIRE(taken.has_value());
    return answer.get_future().get().value();
  }

  std::string HeatFile() {
    return HeatFolder(HostFileSystem(), folder.File("state/heat"))
        .PathOf(core->FindModel("demo")->fingerprint);
  }

  testing::TempFolder folder;
  SteadyClock clock;
  spdlog::logger log{"test"};  // no sinks
  std::unique_ptr<ExpertCore> core;
};

}  // namespace

TEST_CASE("After a restart the first 100 tokens hit more often with the heat of before than without",
          "[scheduling]") {
  const auto after_restart = [](const std::string& policy, bool preheat) {
    Host host;
    host.Start(policy, preheat);
    host.HitRate(0, 500);
    host.core.reset();
    host.Start(policy, preheat);
    return host.HitRate(500, 100);
  };
  for (const std::string policy : {"lru", "heat"}) {
    const double warm = after_restart(policy, true);
    const double cold = after_restart(policy, false);
    std::cout << fmt::format(
        "restart, RAM 50 %, {}: of the first 100 tokens' picks {:.1f} % hit with preheat, {:.1f} % "
        "without\n",
        policy, warm, cold);
    CHECK(warm > cold + 5);
  }
}

TEST_CASE("A model's heat outlives its unload and a restart, and what is damaged is no obstacle",
          "[scheduling]") {
  Host host;
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
  Host host;
  host.Start("lru", true);
  const ModelId id = host.core->FindModel("demo")->id;
  ModelHeat heat = host.core->GetHeat(id).value();
  heat.layers[2].heat[7] = 9;
  heat.layers[5].heat[30] = 4;
  REQUIRE(host.core->SetHeat(id, heat).has_value());
  REQUIRE(host.core->AwaitPreheat(id, AtOnce).has_value());
  CHECK(host.core->GetHeat(id).value() == heat);
  CHECK(host.Run(2, {7, 8, 9, 10}).hits == 1);
  CHECK(host.Run(5, {1, 2, 3, 30}).hits == 1);
  ++heat.fingerprint;
  CHECK(host.core->SetHeat(id, heat).error().reason == Reason::kBadShape);
}

}  // namespace moetier
