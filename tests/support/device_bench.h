#ifndef MOETIER_TESTS_SUPPORT_DEVICE_BENCH_H_
#define MOETIER_TESTS_SUPPORT_DEVICE_BENCH_H_

#include <spdlog/logger.h>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "daemon/scheduling/layer_executor.h"
#include "daemon/scheduling/model_loading.h"
#include "tests/support/fake_record_reader.h"
#include "tests/support/synthetic_model.h"
#include "tests/support/temp_folder.h"
#include "tiers/device/emulated_device.h"
#include "tiers/expert_loader.h"

namespace moetier::testing {

// An executor over a synthetic model whose RAM and VRAM hold shares of its experts, with an
// emulated device that copies as fast as memory goes. blk.1 and blk.2 share a size class of 16
// records, so that 25 % are 4 slots.
class DeviceBench {
 public:
  struct Options {
    double ram = 100;  // percent
    double vram = 25;  // percent; 0: no slots on the device
    std::string policy = "lru";
    std::string vram_policy = "lru";
    VramAdmission admission = VramAdmission::kAlways;
    PrefetchOptions prefetch{};
    uint64_t lost_after = 0;
    // Of the device; empty: it does not wait.
    std::function<void(TimePoint)> wait_until = {};
  };
  explicit DeviceBench(const Options& options);
  ~DeviceBench();

  // blk.1, 2 and 4 have experts 0..7.
  [[nodiscard]] LayerCall Call(uint16_t layer, uint32_t rows, uint32_t top_k, uint64_t seed);
  // One row that picks `experts`.
  [[nodiscard]] LayerCall Pick(uint16_t layer, std::vector<uint16_t> experts);
  std::future<Result<LayerOutput>> Submit(LayerCall call);
  // The answer, whose bits must be the reference's.
  LayerOutput Run(const LayerCall& call);

  // Waits until no copy is under way.
  void Settle();
  [[nodiscard]] bool InRam(uint16_t layer, uint16_t expert);
  [[nodiscard]] bool InVram(uint16_t layer, uint16_t expert);
  [[nodiscard]] VramPool::Counters VramCounters();
  [[nodiscard]] LaneCounters Lane(LaneKind lane);

  const ModelId id{3};
  SteadyClock clock;
  spdlog::logger log{"test"};  // no sinks
  SyntheticModel model{{.experts = 8, .hidden = 64, .ffn = 64}};
  kernels::ExpertKernels kernels =
      kernels::ExpertKernels::Create(kernels::InstructionSet::kScalar).value();
  CpuLane lane;
  EmulatedDevice device;  // outlives the models that the executor holds
  LayerExecutor executor;
  ExpertLoader loader;
  FakeRecordReader reader;

 private:
  [[nodiscard]] const LayerGeometry& Layer(uint16_t layer) const;
};

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_SUPPORT_DEVICE_BENCH_H_
