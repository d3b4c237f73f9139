#include "tests/support/demo_core.h"

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/check.h"
#include "tests/support/submit_call.h"
#include "tiers/store/importer.h"

namespace moetier::testing {
namespace {

const std::string kDemo = MOETIER_TEST_DATA "/demo-moe";

}  // namespace

DemoCore::DemoCore() {
  ImportOptions options;
  options.model_path = kDemo + "/moetier-demo-Q4_K_M.gguf";
  options.store_directory = folder.File("store");
  const Result<ImportSummary> imported = ImportModel(options, HostFileSystem(), nullptr);
  MOE_CHECK(imported.has_value(), "{}", imported.error().message);
}

void DemoCore::Start(const ModelOptions& model) {
  core.reset();
  ExpertCore::Options options;
  options.tune_kernels = false;
  options.cpu_workers = 1;
  options.pin_workers = false;
  options.heat.directory = folder.File("state/heat");
  adjust(options);
  core = ExpertCore::Create(options, clock, log).value();
  const Status loaded = core->Load(model, AtOnce);
  MOE_CHECK(loaded.has_value(), "{}", loaded.error().message);
  MOE_CHECK(core->AwaitPreheat(id(), AtOnce).has_value(), "nobody ends the wait");
}

void DemoCore::Start(const std::string& policy, bool preheat) {
  ModelOptions model;
  model.name = "demo";
  model.directory = folder.File("store");
  model.ram = Percent{50};
  model.policy = policy;
  model.preheat = preheat;
  Start(model);
}

std::future<Result<LayerOutput>> DemoCore::Submit(uint32_t layer,
                                                  const std::vector<uint16_t>& experts) {
  LayerCall call;
  call.model = id();
  call.layer = static_cast<LayerIndex>(layer);
  call.rows = 1;
  call.top_k = static_cast<uint32_t>(experts.size());
  for (uint32_t i = 0; i < kHidden; ++i) call.hidden.push_back(static_cast<float>(i) / 64 - 2);
  call.experts = experts;
  call.weights.assign(experts.size(), 0.25f);
  call.received = clock.Now();
  call.control = std::make_shared<CallControl>();
  return SubmitCall(*core, std::move(call));
}

std::vector<uint16_t> DemoCore::Recorded(uint32_t token, uint32_t layer) {
  static const nlohmann::json trace = [] {
    std::ifstream file(kDemo + "/routing-trace.json");
    return nlohmann::json::parse(file);
  }();
  return trace.at("experts").at(token).at(layer).get<std::vector<uint16_t>>();
}

double DemoCore::HitRate(uint32_t first_token, uint32_t tokens) {
  uint32_t hits = 0;
  for (uint32_t token = first_token; token < first_token + tokens; ++token) {
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      hits += Run(layer, Recorded(token, layer)).hits;
    }
  }
  return 100.0 * hits / (tokens * kLayers * kTopK);
}

uint32_t DemoCore::WrongAnswersUnder(const std::function<void(uint64_t)>& change) {
  constexpr uint32_t kTokens = 40;
  constexpr uint32_t kRounds = 40;
  std::vector<std::vector<float>> expected;
  for (uint32_t token = 0; token < kTokens; ++token) {
    expected.push_back(Run(token % kLayers, Recorded(token, token % kLayers)).output);
  }
  std::atomic<bool> stop{false};
  std::jthread changes([&] {
    for (uint64_t i = 0; !stop; ++i) change(i);
  });
  uint32_t wrong = 0;
  for (uint32_t round = 0; round < kRounds; ++round) {
    std::vector<std::future<Result<LayerOutput>>> answers;
    for (uint32_t token = 0; token < kTokens; ++token) {
      answers.push_back(Submit(token % kLayers, Recorded(token, token % kLayers)));
    }
    for (uint32_t token = 0; token < kTokens; ++token) {
      if (answers[token].get().value().output != expected[token]) ++wrong;
    }
  }
  stop = true;
  return wrong;
}

std::string DemoCore::HeatFile() const {
  return HeatFolder(HostFileSystem(), folder.File("state/heat"))
      .PathOf(core->FindModel("demo")->fingerprint);
}

}  // namespace moetier::testing
