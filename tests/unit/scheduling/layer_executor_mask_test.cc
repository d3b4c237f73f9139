// `exact: mask`: what a decode leaves out, and that it is there the next time.

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/executor_bench.h"

namespace moetier {
namespace {

using Bench = ExecutorBench;

constexpr auto kThread = FakeRecordReader::Delivery::kThread;

void Mask(Bench& bench) {
  bench.executor.WithModel(bench.id, [](LoadedModel& model) { model.misses = MissRule::kMask; });
}

uint64_t MaskedPicks(Bench& bench) {
  uint64_t picks = 0;
  bench.executor.WithModel(bench.id, [&](const LoadedModel& model) { picks = model.masked_picks; });
  return picks;
}

void AwaitFills(Bench& bench) {
  bool filling = true;
  for (int i = 0; i < 2000 && filling; ++i) {
    bench.executor.WithModel(bench.id,
                             [&](const LoadedModel& model) { filling = !model.filling.empty(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  REQUIRE_FALSE(filling);
}

// The call with the weights of the picks that were left out set to 0.
LayerCall Without(LayerCall call, const std::vector<MaskedPick>& masked) {
  for (const MaskedPick& each : masked) call.weights[each.row * call.top_k + each.pick] = 0;
  return call;
}

}  // namespace

TEST_CASE("LayerExecutor: under mask a quarter of a decode's misses is left out, and read",
          "[scheduling]") {
  Bench bench(8, kThread);
  Mask(bench);
  const LayerCall call = bench.Call(1, 1, 8, 1);
  const Result<LayerOutput> cold = bench.Submit(call).get();
  REQUIRE(cold.has_value());
  REQUIRE(cold->masked.size() == 2);
  CHECK(cold->masked[0].pick != cold->masked[1].pick);
  CHECK(cold->misses == 6);
  CHECK(cold->output == bench.model.Reference(Without(call, cold->masked)));
  CHECK(cold->output != bench.model.Reference(call));

  AwaitFills(bench);
  const Result<LayerOutput> warm = bench.Submit(call).get();
  REQUIRE(warm.has_value());
  CHECK(warm->masked.empty());
  CHECK(warm->hits == 8);
  CHECK(warm->output == bench.model.Reference(call));
  CHECK(MaskedPicks(bench) == 2);
  CHECK(bench.Counts(0).granted_waves == 0);
}

TEST_CASE("LayerExecutor: under mask a call is answered while what it left out is being read",
          "[scheduling]") {
  Bench bench(8, kThread);
  Mask(bench);
  const LayerCall all = bench.Call(1, 1, 8, 1);
  LayerCall call = all;  // six of the experts are there, two are not
  call.top_k = 6;
  call.experts.resize(6);
  call.weights.resize(6);
  REQUIRE(bench.Submit(call).get().has_value());  // one of the six is left out
  AwaitFills(bench);
  bench.reader.HoldNew(true);
  const Result<LayerOutput> answered = bench.Submit(all).get();  // no read has ended
  REQUIRE(answered.has_value());
  CHECK(answered->masked.size() == 2);
  CHECK(answered->hits == 6);
  CHECK(answered->output == bench.model.Reference(Without(all, answered->masked)));
  // Once more before they have landed: left out again, read once.
  CHECK(bench.Submit(all).get()->masked.size() == 2);
  bench.reader.HoldNew(false);
  bench.reader.Release();
  AwaitFills(bench);
  CHECK(bench.Submit(all).get()->output == bench.model.Reference(all));
  CHECK(bench.Counts(0).misses == 8);
}

TEST_CASE("LayerExecutor: under mask prompts and small top-k are exact", "[scheduling]") {
  Bench bench(8, kThread);
  Mask(bench);
  for (const LayerCall& call : {bench.Call(1, 9, 8, 1), bench.Call(2, 1, 3, 2)}) {
    const Result<LayerOutput> output = bench.Submit(call).get();
    REQUIRE(output.has_value());
    CHECK(output->masked.empty());
    CHECK(output->output == bench.model.Reference(call));
  }
}

}  // namespace moetier
