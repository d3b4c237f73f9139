#include <fcntl.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <future>
#include <thread>

#include "daemon/scheduling/layer_executor.h"
#include "daemon/scheduling/model_loading.h"
#include "tests/support/fake_record_reader.h"
#include "tests/support/store_helpers.h"
#include "tests/support/submit_call.h"
#include "tests/support/synthetic_model.h"
#include "tests/support/temp_folder.h"

namespace moetier {
namespace {

using testing::SyntheticModel;
using Answer = std::future<Result<LayerOutput>>;
using Delivery = FakeRecordReader::Delivery;

constexpr ModelId kModel{3};
constexpr SessionId kSession{9};

ExpertKey Key(uint16_t layer, uint16_t expert) {
  return {kModel, LayerIndex{layer}, ExpertIndex{expert}};
}

// An executor with a prefetcher over a synthetic model of layers 1, 2 and 4 with 8 experts each,
// and a reader that the test orders about. Of every 16 experts, `slots` have one.
class Foreseeing {
 public:
  Foreseeing(uint32_t slots, Delivery delivery, const PrefetchOptions& prefetch)
      : lane({.workers = 2}, kernels),
        executor({.max_queued_calls = 64, .max_active_batches = 4, .prefetch = prefetch}, clock,
                 log, lane),
        loader(executor),
        reader({.delivery = delivery}, loader) {
    loader.set_reader(&reader);
    executor.set_loader(&loader);
    executor.Start();
    const std::span<const std::byte> bytes = model.file();
    testing::WriteFileBytes(folder.File("records"), {bytes.begin(), bytes.end()});
    files.push_back(UniqueFd::Open(folder.File("records"), O_RDONLY).value());
    executor.AddModel(Load(slots));
  }
  ~Foreseeing() {
    const std::jthread completer = reader.KeepCompleting();
    executor.Stop();
  }

  std::unique_ptr<LoadedModel> Load(uint32_t slots) {
    OpenedStore open;
    open.store = model.MakeStore();
    open.files = files;
    ModelOptions options;
    options.name = "synthetic";
    Bytes budget;
    for (const SizeClassGeometry& each : model.geometry().size_classes) {
      budget += each.slot_bytes * (each.records * slots / 16);
    }
    options.ram = budget;
    auto loaded = BuildModelOver(std::move(open), options, kModel, {}, {}, reader).value();
    loaded->router = Router();
    return loaded;
  }

  // Whatever the row, each layer's router prefers experts 7, 6, 5 and so on.
  std::shared_ptr<const RouterPredictor> Router() {
    std::vector<LayerRouter> routers;
    for (const LayerGeometry& layer : model.geometry().layers) {
      LayerRouter router{.layer = layer.layer, .score = RouterScore::kSoftmax, .tensors = {}};
      const auto columns = model.geometry().hidden;
      router.tensors[static_cast<size_t>(RouterRole::kWeight)] =
          RouterMatrix{.ggml_type = 0,
                       .rows = layer.experts,
                       .columns = columns,
                       .bytes = std::vector<std::byte>(size_t{4} * layer.experts * columns)};
      std::vector<float> bias(layer.experts);
      for (uint32_t i = 0; i < layer.experts; ++i) bias[i] = static_cast<float>(i);
      RouterMatrix matrix{.ggml_type = 0, .rows = 1, .columns = layer.experts, .bytes = {}};
      matrix.bytes.resize(bias.size() * sizeof(float));
      std::memcpy(matrix.bytes.data(), bias.data(), matrix.bytes.size());
      router.tensors[static_cast<size_t>(RouterRole::kLogitBias)] = std::move(matrix);
      routers.push_back(std::move(router));
    }
    return RouterPredictor::Create(routers, model.geometry()).value();
  }

  LayerCall Call(uint16_t layer, const std::vector<uint16_t>& experts) {
    LayerCall call = model.MakeCall(LayerIndex{layer}, 1, static_cast<uint32_t>(experts.size()), 5);
    call.experts = experts;
    call.model = kModel;
    call.session = kSession;
    call.received = clock.Now();
    call.control = std::make_shared<CallControl>();
    return call;
  }

  Answer Submit(LayerCall call) { return SubmitCall(executor, std::move(call)); }

  std::vector<ReadRequest> WaitForReads(size_t count) {
    while (reader.pending().size() < count) std::this_thread::yield();
    Settle();
    return reader.pending();
  }
  // The executor has done what follows from what was sent to it before.
  void Settle() {
    for (int i = 0; i < 2; ++i) executor.Inspect([](const LayerExecutor::View&) {});
  }
  LayerOutput Finish(Answer answer) {
    while (answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      reader.CompleteAll();
      std::this_thread::yield();
    }
    return answer.get().value();
  }
  SourceCounts Counts(GuessSource source) {
    SourceCounts counts;
    executor.Inspect(
        [&](const LayerExecutor::View& view) { counts = view.prefetcher.counts(source); });
    return counts;
  }

  SteadyClock clock;
  spdlog::logger log{"test"};  // no sinks
  testing::TempFolder folder;
  std::vector<UniqueFd> files;
  SyntheticModel model{{.experts = 8, .hidden = 64, .ffn = 64}};
  kernels::ExpertKernels kernels =
      kernels::ExpertKernels::Create(kernels::InstructionSet::kScalar).value();
  CpuLane lane;
  LayerExecutor executor;
  ExpertLoader loader;
  FakeRecordReader reader;
};

constexpr PrefetchOptions kHintsOnly{.enabled = true, .router = false};

}  // namespace

TEST_CASE("LayerExecutor: a hinted expert is read ahead, and is a hit when its call comes",
          "[scheduling]") {
  Foreseeing bench(8, Delivery::kManual, kHintsOnly);
  CHECK(bench.executor.Hint(kSession, {Key(2, 3)}) == 1);
  const auto reads = bench.WaitForReads(1);
  CHECK(reads[0].urgency == Urgency::kPrefetch);
  bench.reader.CompleteAll();
  bench.Settle();
  CHECK(bench.executor.Hint(kSession, {Key(2, 3)}) == 1);  // there already
  CHECK(bench.reader.pending().empty());
  CHECK(bench.Finish(bench.Submit(bench.Call(2, {3}))).hits == 1);
  const SourceCounts hint = bench.Counts(GuessSource::kHint);
  CHECK(hint.right == 1);
  CHECK(hint.in_time == 1);
}

TEST_CASE("LayerExecutor: nothing is read ahead while a demand is under way", "[scheduling]") {
  Foreseeing bench(8, Delivery::kManual, kHintsOnly);
  Answer answer = bench.Submit(bench.Call(1, {0, 1}));
  bench.WaitForReads(2);
  CHECK(bench.executor.Hint(kSession, {Key(2, 3)}) == 1);
  bench.Settle();
  CHECK(bench.reader.pending().size() == 2);
  REQUIRE(bench.reader.CompleteNext());
  bench.Settle();
  CHECK(bench.reader.pending().size() == 1);
  REQUIRE(bench.reader.CompleteNext());
  CHECK(bench.WaitForReads(1)[0].urgency == Urgency::kPrefetch);
  bench.Finish(std::move(answer));
}

TEST_CASE("LayerExecutor: a call that names what is being read ahead joins and promotes it",
          "[scheduling]") {
  Foreseeing bench(8, Delivery::kManual, kHintsOnly);
  bench.executor.Hint(kSession, {Key(2, 3)});
  bench.WaitForReads(1);
  Answer answer = bench.Submit(bench.Call(2, {3}));
  while (bench.reader.pending()[0].urgency != Urgency::kDemand) std::this_thread::yield();
  CHECK(bench.reader.pending().size() == 1);
  CHECK(bench.Finish(std::move(answer)).in_flight == 1);
  CHECK(bench.Counts(GuessSource::kHint).in_time == 0);
}

TEST_CASE("LayerExecutor: a guess that its call proves wrong is cancelled", "[scheduling]") {
  Foreseeing bench(8, Delivery::kManual, kHintsOnly);
  bench.executor.Hint(kSession, {Key(2, 3)});
  const uint64_t guess = bench.WaitForReads(1)[0].id;
  Answer answer = bench.Submit(bench.Call(2, {5}));
  while (!bench.reader.cancel_asked(guess)) std::this_thread::yield();
  bench.Finish(std::move(answer));
}

TEST_CASE("LayerExecutor: no more is read ahead at one time than allowed", "[scheduling]") {
  PrefetchOptions options = kHintsOnly;
  options.in_flight = 2;
  Foreseeing bench(16, Delivery::kManual, options);
  CHECK(bench.executor.Hint(kSession, {Key(2, 1), Key(2, 2), Key(2, 3)}) == 3);
  CHECK(bench.WaitForReads(2).size() == 2);
  REQUIRE(bench.reader.CompleteNext());
  CHECK(bench.WaitForReads(2).size() == 2);
}

TEST_CASE("LayerExecutor: hints that came with a call are read ahead", "[scheduling]") {
  Foreseeing bench(8, Delivery::kManual, kHintsOnly);
  LayerCall call = bench.Call(1, {0});
  call.hints = {Key(2, 6)};
  bench.Finish(bench.Submit(std::move(call)));
  bench.Settle();
  bench.reader.CompleteAll();
  CHECK(bench.Finish(bench.Submit(bench.Call(2, {6}))).misses == 0);
}

TEST_CASE("LayerExecutor: what the next layers' routers guess is read ahead", "[scheduling]") {
  Foreseeing bench(16, Delivery::kManual,
                   {.enabled = true, .hints = false, .depth = 2, .guesses = 2});
  bench.Finish(bench.Submit(bench.Call(1, {0})));
  const auto guessed = [&] {  // two of layer 2 and two of layer 4
    uint64_t started = 0;
    bench.executor.Inspect([&](const LayerExecutor::View& view) {
      for (const auto& ledger : view.models.at(kModel)->ledgers) {
        started += ledger->counts().prefetched;
      }
    });
    return started;
  };
  while (guessed() < 4) std::this_thread::yield();
  bench.reader.CompleteAll();
  bench.Settle();
  CHECK(bench.Finish(bench.Submit(bench.Call(2, {7, 0}))).hits == 1);
  CHECK(bench.Finish(bench.Submit(bench.Call(4, {7, 6}))).hits == 2);
  const SourceCounts router = bench.Counts(GuessSource::kRouter);
  CHECK(router.calls == 2);
  CHECK(router.picks == 4);
  CHECK(router.right == 3);
}

TEST_CASE("LayerExecutor: with every source and few slots the bits are the reference's",
          "[scheduling]") {
  for (const bool router : {true, false}) {
    Foreseeing bench(6, Delivery::kThread,
                     {.enabled = true, .router = router, .history = true, .depth = 2});
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const uint16_t layer = std::array<uint16_t, 3>{1, 2, 4}[seed % 3];
      LayerCall call =
          bench.model.MakeCall(LayerIndex{layer}, seed % 7 == 0 ? 30 : 1, 1 + seed % 2, seed);
      call.model = kModel;
      call.session = SessionId{seed % 2};
      call.received = bench.clock.Now();
      call.control = std::make_shared<CallControl>();
      if (seed % 5 == 0) call.hints = {Key(4, 1), Key(4, 2)};
      Answer answer = bench.Submit(call);
      INFO("call " << seed);
      CHECK(answer.get()->output == bench.model.Reference(call));
    }
  }
}

TEST_CASE("LayerExecutor: a model is not handed back before its reads ahead have ended",
          "[scheduling]") {
  Foreseeing bench(8, Delivery::kManual, kHintsOnly);
  bench.executor.Hint(kSession, {Key(2, 3), Key(4, 1)});
  bench.WaitForReads(2);
  std::future<std::unique_ptr<LoadedModel>> removed =
      std::async(std::launch::async, [&] { return bench.executor.RemoveModel(kModel).value(); });
  bench.Settle();
  CHECK(removed.wait_for(std::chrono::seconds(0)) != std::future_status::ready);
  bench.reader.CompleteAll();
  CHECK(removed.get() != nullptr);
  CHECK(bench.executor.Hint(kSession, {Key(2, 3)}) == 0);
}

}  // namespace moetier
