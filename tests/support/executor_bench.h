#ifndef MOETIER_TESTS_SUPPORT_EXECUTOR_BENCH_H_
#define MOETIER_TESTS_SUPPORT_EXECUTOR_BENCH_H_

#include <spdlog/logger.h>

#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/scheduling/layer_executor.h"
#include "tests/support/fake_record_reader.h"
#include "tests/support/submit_call.h"
#include "tests/support/synthetic_model.h"
#include "tiers/arena_plan.h"

namespace moetier {

// An executor over a synthetic model whose RAM holds `slots` records a size class, and a reader
// that the test orders about.
class ExecutorBench {
 public:
  using SyntheticModel = testing::SyntheticModel;
  using Answer = std::future<Result<LayerOutput>>;

  ExecutorBench(uint32_t slots, FakeRecordReader::Delivery delivery,
                const std::string& policy = "lru",
                const SyntheticModel::Options& shape = {.experts = 8, .hidden = 64, .ffn = 64})
      : model(shape),
        lane({.workers = 2}, kernels),
        executor({.max_queued_calls = 64, .max_active_batches = 4}, clock, log, lane),
        loader(executor),
        reader({.delivery = delivery}, loader) {
    loader.set_reader(&reader);
    executor.set_loader(&loader);
    const std::span<const std::byte> bytes = model.file();
    file = reader.AddMemoryFile({bytes.begin(), bytes.end()});
    executor.Start();
    executor.AddModel(Load(slots, policy));
  }
  // What a test left waiting is read, so that Stop can answer it.
  ~ExecutorBench() {
    const std::jthread completer = reader.KeepCompleting();
    executor.Stop();
  }

  std::unique_ptr<LoadedModel> Load(uint32_t slots, const std::string& policy) {
    auto loaded = std::make_unique<LoadedModel>();
    loaded->id = id;
    loaded->name = "synthetic";
    loaded->geometry = std::make_shared<const ModelGeometry>(model.geometry());
    loaded->store = model.MakeStore();
    loaded->files = {file};
    loaded->heat = std::make_unique<HeatBook>(model.geometry());
    Bytes budget;
    for (const SizeClassGeometry& each : model.geometry().size_classes) {
      budget += each.slot_bytes * slots;
    }
    ArenaPlan plan;
    for (const SizeClassGeometry& each : model.geometry().size_classes) {
      plan.regions.push_back(
          {.slot_bytes = each.slot_bytes, .slots = slots, .offset = plan.total.count()});
      plan.total += each.slot_bytes * slots;
    }
    loaded->arena = Arena::Create(plan, {}).value();
    for (size_t i = 0; i < plan.regions.size(); ++i) {
      std::vector<ExpertKey> keys;
      for (const LayerGeometry& layer : model.geometry().layers) {
        if (Raw(layer.size_class) != i) continue;
        for (uint16_t e = 0; e < layer.experts; ++e)
          keys.push_back({id, layer.layer, ExpertIndex{e}});
      }
      loaded->ledgers.push_back(
          ResidencyLedger::Create(
              {.slot_count = slots, .policy = policy, .keys = keys, .hot_keys = {}})
              .value());
      loaded->pinned.push_back(0);
    }
    for (const LayerGeometry& layer : model.geometry().layers) {
      loaded->verified[layer.layer].resize(layer.experts);
    }
    return loaded;
  }

  LayerCall Call(uint16_t layer, uint32_t rows, uint32_t top_k, uint64_t seed) {
    LayerCall call = model.MakeCall(LayerIndex{layer}, rows, top_k, seed);
    call.model = id;
    call.received = clock.Now();
    call.control = std::make_shared<CallControl>();
    return call;
  }

  Answer Submit(LayerCall call) { return SubmitCall(executor, std::move(call)); }

  LedgerCounts Counts(size_t size_class) {
    LedgerCounts counts;
    executor.Inspect([&](const LayerExecutor::View& view) {
      counts = view.models.at(id)->ledgers[size_class]->counts();
    });
    return counts;
  }

  const ModelId id{3};
  SteadyClock clock;
  spdlog::logger log{"test"};  // no sinks
  SyntheticModel model;
  kernels::ExpertKernels kernels =
      kernels::ExpertKernels::Create(kernels::InstructionSet::kScalar).value();
  CpuLane lane;
  LayerExecutor executor;
  ExpertLoader loader;
  FakeRecordReader reader;
  FileId file{};
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SUPPORT_EXECUTOR_BENCH_H_
