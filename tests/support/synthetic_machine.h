#ifndef MOETIER_TESTS_SUPPORT_SYNTHETIC_MACHINE_H_
#define MOETIER_TESTS_SUPPORT_SYNTHETIC_MACHINE_H_

#include <spdlog/logger.h>

#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/scheduling/layer_executor.h"
#include "tests/support/fake_record_reader.h"
#include "tests/support/synthetic_model.h"

namespace moetier::testing {

// An executor over a synthetic model in a file of memory, with one worker and the best kernels.
// Threads: Submit from any, the others from one.
class SyntheticMachine {
 public:
  // `ram_percent` of the experts have a slot.
  SyntheticMachine(const SyntheticModel::Options& model, uint32_t ram_percent,
                   const std::string& policy);
  ~SyntheticMachine();

  // One row that picks `experts`, with seeded hidden values and weights.
  [[nodiscard]] LayerCall Call(uint32_t layer, std::span<const uint16_t> experts, uint64_t seed);
  // `rows` rows, each of which picks `top_k` experts.
  [[nodiscard]] LayerCall AnyCall(uint32_t layer, uint32_t rows, uint32_t top_k, uint64_t seed);

  std::future<LayerOutput> Submit(LayerCall call);
  // The outputs of calls that all wait at the same moment.
  std::vector<std::vector<float>> RunTogether(const std::vector<const LayerCall*>& calls);

  [[nodiscard]] LaneCounters Counters();

 private:
  SteadyClock clock_;
  spdlog::logger log_{"synthetic"};  // no sinks
  SyntheticModel model_;
  kernels::ExpertKernels kernels_;
  CpuLane lane_;
  LayerExecutor executor_;
  ExpertLoader loader_;
  FakeRecordReader reader_;
};

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_SUPPORT_SYNTHETIC_MACHINE_H_
