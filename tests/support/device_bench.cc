#include "tests/support/device_bench.h"

#include <fcntl.h>

#include <catch2/catch.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/store_helpers.h"
#include "tests/support/submit_call.h"

namespace moetier::testing {
namespace {

EmulatedDevice::Options DeviceOptions(const DeviceBench::Options& options) {
  EmulatedDevice::Options device;
  device.budget = 64_MiB;
  device.lost_after = options.lost_after;
  device.wait_until = options.wait_until ? options.wait_until : [](TimePoint) {};
  return device;
}

}  // namespace

DeviceBench::DeviceBench(const Options& options)
    : lane({.workers = 2}, kernels),
      device(DeviceOptions(options), clock, kernels),
      executor({.max_queued_calls = 256, .max_active_batches = 8, .prefetch = options.prefetch},
               clock, log, lane),
      loader(executor),
      reader({.delivery = FakeRecordReader::Delivery::kThread}, loader) {
  loader.set_reader(&reader);
  executor.set_loader(&loader);
  device.Start(executor);
  executor.set_device(&device);
  executor.Start();

  const TempFolder folder;
  const std::string path = folder.File("records");
  WriteFileBytes(path, {model.file().begin(), model.file().end()});
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(file.get() >= 0);
  ModelOptions load;
  load.name = "synthetic";
  load.ram = Percent{options.ram};
  load.policy = options.policy;
  if (options.vram > 0) {
    load.vram = Percent{options.vram};
  } else {
    load.vram.reset();
  }
  load.vram_policy = options.vram_policy;
  load.vram_admission = options.admission;
  OpenedStore store{.store = model.MakeStore(), .files = std::span(&file, 1), .fallbacks = {}};
  std::unique_ptr<LoadedModel> loaded =
      BuildModelOver(std::move(store), load, id, {}, {}, reader).value();
  MOE_CHECK(UseDevice(load, device, {}, *loaded).has_value(), "nothing stops it");
  executor.AddModel(std::move(loaded));
}

DeviceBench::~DeviceBench() {
  executor.Stop();
  device.Stop();
}

const LayerGeometry& DeviceBench::Layer(uint16_t layer) const {
  return *model.geometry().Find(LayerIndex{layer});
}

LayerCall DeviceBench::Call(uint16_t layer, uint32_t rows, uint32_t top_k, uint64_t seed) {
  LayerCall call = model.MakeCall(LayerIndex{layer}, rows, top_k, seed);
  call.model = id;
  call.received = clock.Now();
  call.control = std::make_shared<CallControl>();
  return call;
}

LayerCall DeviceBench::Pick(uint16_t layer, std::vector<uint16_t> experts) {
  LayerCall call = Call(layer, 1, static_cast<uint32_t>(experts.size()), 1);
  call.experts = std::move(experts);
  return call;
}

std::future<Result<LayerOutput>> DeviceBench::Submit(LayerCall call) {
  return SubmitCall(executor, std::move(call));
}

LayerOutput DeviceBench::Run(const LayerCall& call) {
  Result<LayerOutput> answer = Submit(call).get();
  INFO((answer.has_value() ? "" : answer.error().message));
  REQUIRE(answer.has_value());
  CHECK(answer->output == model.Reference(call));
  return std::move(answer).value();
}

void DeviceBench::Settle() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  bool busy = true;
  while (busy && std::chrono::steady_clock::now() < end) {
    executor.Inspect(
        [&](const LayerExecutor::View& view) { busy = view.models.at(id)->device_work > 0; });
    if (busy) std::this_thread::yield();
  }
  CHECK_FALSE(busy);
}

bool DeviceBench::InRam(uint16_t layer, uint16_t expert) {
  bool in = false;
  executor.Inspect([&](const LayerExecutor::View& view) {
    const ResidencyLedger& ledger = *view.models.at(id)->ledgers[Raw(Layer(layer).size_class)];
    in = ledger.StateOf({id, LayerIndex{layer}, ExpertIndex{expert}}) == SlotState::kResident;
  });
  return in;
}

bool DeviceBench::InVram(uint16_t layer, uint16_t expert) {
  bool in = false;
  executor.Inspect([&](const LayerExecutor::View& view) {
    in = view.models.at(id)->vram->IsResident(Layer(layer).size_class,
                                              {id, LayerIndex{layer}, ExpertIndex{expert}});
  });
  return in;
}

VramPool::Counters DeviceBench::VramCounters() {
  VramPool::Counters counters;
  executor.Inspect(
      [&](const LayerExecutor::View& view) { counters = view.models.at(id)->vram->counters(); });
  return counters;
}

LaneCounters DeviceBench::Lane(LaneKind kind) {
  LaneCounters counters;
  executor.Inspect([&](const LayerExecutor::View& view) { counters = view.lanes[Raw(kind)]; });
  return counters;
}

}  // namespace moetier::testing
