#include "tests/support/synthetic_machine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "base/check.h"
#include "base/unique_fd.h"
#include "daemon/scheduling/model_loading.h"

namespace moetier::testing {
namespace {

constexpr ModelId kModel{1};

}  // namespace

SyntheticMachine::SyntheticMachine(const SyntheticModel::Options& model, uint32_t ram_percent,
                                   const std::string& policy)
    : model_(model),
      kernels_(kernels::ExpertKernels::Create(kernels::BestInstructionSet()).value()),
      lane_({.workers = 1}, kernels_),
      executor_({}, clock_, log_, lane_),
      loader_(executor_),
      reader_({.delivery = FakeRecordReader::Delivery::kThread}, loader_) {
  loader_.set_reader(&reader_);
  executor_.set_loader(&loader_);
  executor_.Start();
  // The reader wants a file; a memfd is one.
  std::vector<UniqueFd> files;
  files.emplace_back(memfd_create("experts", MFD_CLOEXEC));
  const std::span<const std::byte> bytes = model_.file();
  MOE_CHECK(write(files[0].get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
            "no memory for {} bytes of experts", bytes.size());
  OpenedStore open;
  open.store = model_.MakeStore();
  open.files = files;
  const ModelOptions options{.name = "synthetic",
                             .directory = "",
                             .ram = Percent{static_cast<double>(ram_percent)},
                             .policy = policy};
  auto loaded = BuildModelOver(std::move(open), options, kModel, {}, {}, reader_);
  MOE_CHECK(loaded.has_value(), "{}", loaded.error().message);
  executor_.AddModel(std::move(loaded).value());
}

SyntheticMachine::~SyntheticMachine() { executor_.Stop(); }

LayerCall SyntheticMachine::AnyCall(uint32_t layer, uint32_t rows, uint32_t top_k, uint64_t seed) {
  LayerCall call = model_.MakeCall(LayerIndex{static_cast<uint16_t>(layer)}, rows, top_k, seed);
  call.model = kModel;
  call.received = clock_.Now();
  call.control = std::make_shared<CallControl>();
  return call;
}

LayerCall SyntheticMachine::Call(uint32_t layer, std::span<const uint16_t> experts, uint64_t seed) {
  LayerCall call = AnyCall(layer, 1, static_cast<uint32_t>(experts.size()), seed);
  call.experts.assign(experts.begin(), experts.end());
  return call;
}

std::future<LayerOutput> SyntheticMachine::Submit(LayerCall call) {
  auto promise = std::make_shared<std::promise<LayerOutput>>();
  std::future<LayerOutput> output = promise->get_future();
  const Status taken = executor_.Submit(std::move(call), [promise](Result<LayerOutput> result) {
    promise->set_value(std::move(result).value());
  });
  MOE_CHECK(taken.has_value(), "{}", taken.error().message);
  return output;
}

std::vector<std::vector<float>> SyntheticMachine::RunTogether(
    const std::vector<const LayerCall*>& calls) {
  std::vector<std::future<LayerOutput>> outputs;
  // While the executor's thread is in Inspect it begins nothing: all calls are there after it.
  executor_.Inspect([&](const LayerExecutor::View& /*view*/) {
    for (const LayerCall* call : calls) outputs.push_back(Submit(*call));
  });
  std::vector<std::vector<float>> answers;
  for (std::future<LayerOutput>& output : outputs) {
    answers.push_back(std::move(output.get().output));
  }
  return answers;
}

LaneCounters SyntheticMachine::Counters() {
  LaneCounters counters;
  executor_.Inspect(
      [&](const LayerExecutor::View& view) { counters = view.lanes[Raw(LaneKind::kCpu)]; });
  return counters;
}

}  // namespace moetier::testing
