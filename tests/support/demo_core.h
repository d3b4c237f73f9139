#ifndef MOETIER_TESTS_SUPPORT_DEMO_CORE_H_
#define MOETIER_TESTS_SUPPORT_DEMO_CORE_H_

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "daemon/scheduling/expert_core.h"
#include "tests/support/temp_folder.h"

namespace moetier::testing {

inline GoOn AtOnce(const ModelProgress& /*progress*/) { return GoOn::kYes; }

// A store and a state directory of the demo model, and the cores that come and go over them.
class DemoCore {
 public:
  static constexpr uint32_t kLayers = 6;
  static constexpr uint32_t kTopK = 4;
  static constexpr uint32_t kHidden = 256;

  DemoCore();

  // In the place of the core before, which ends first. Returns when what is preheated is there.
  void Start(const ModelOptions& options);
  // The same with half of the experts in RAM.
  void Start(const std::string& policy, bool preheat);

  [[nodiscard]] ModelId id() const { return core->FindModel("demo")->id; }
  // A call of one row.
  std::future<Result<LayerOutput>> Submit(uint32_t layer, const std::vector<uint16_t>& experts);
  LayerOutput Run(uint32_t layer, const std::vector<uint16_t>& experts) {
    return Submit(layer, experts).get().value();
  }
  // What the model's own router picked for a token of the recorded trace.
  [[nodiscard]] static std::vector<uint16_t> Recorded(uint32_t token, uint32_t layer);
  // The calls of these recorded tokens, one after another; how many % of picks were resident.
  double HitRate(uint32_t first_token, uint32_t tokens);
  // Calls of recorded tokens, many at once and over and over, while `change` runs beside them, with
  // 0, 1, 2 and so on; how many of their answers have not the bits that they had before.
  uint32_t WrongAnswersUnder(const std::function<void(uint64_t)>& change);
  [[nodiscard]] std::string HeatFile() const;

  // Changes the options of the cores that are started from now on.
  std::function<void(ExpertCore::Options&)> adjust = [](ExpertCore::Options&) {};

  TempFolder folder;
  SteadyClock clock;
  spdlog::logger log{"test"};  // no sinks
  std::unique_ptr<ExpertCore> core;
};

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_SUPPORT_DEMO_CORE_H_
