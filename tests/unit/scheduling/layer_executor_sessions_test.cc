// The executor between sessions, and what it lets others see of their calls.

#include <catch2/catch.hpp>

#include "tests/support/executor_bench.h"

namespace moetier {
namespace {

using Bench = ExecutorBench;

constexpr auto kThread = FakeRecordReader::Delivery::kThread;

TEST_CASE(
    "LayerExecutor: a tap sees the calls that are answered with an output, until it has enough",
    "[scheduling]") {
  struct Tap final : RouteTap {
    Next OnAnswered(const LayerCall& call, const LayerOutput& output) override {
      picks.push_back(call.experts);
      misses += output.misses;
      return picks.size() < 2 ? Next::kMore : Next::kNoMore;
    }
    bool closed() override { return false; }
    std::vector<std::vector<uint16_t>> picks;
    uint32_t misses = 0;
  };
  Bench bench(16, kThread);
  const auto tap = std::make_shared<Tap>();
  const LayerCall before = bench.Call(1, 1, 2, 1);
  REQUIRE(bench.Submit(before).get().has_value());
  bench.executor.AddTap(tap);
  LayerCall lost = bench.Call(1, 1, 2, 1);
  lost.deadline = lost.received;
  CHECK_FALSE(bench.Submit(lost).get().has_value());
  std::vector<LayerCall> calls;
  for (uint64_t seed = 2; seed < 6; ++seed) {
    calls.push_back(bench.Call(2, 1, 2, seed));
    REQUIRE(bench.Submit(calls.back()).get().has_value());
  }
  bench.executor.Stop();
  CHECK(tap->picks == std::vector<std::vector<uint16_t>>{calls[0].experts, calls[1].experts});
  CHECK(tap->misses > 0);
  CHECK(tap.use_count() == 1);
}

TEST_CASE("LayerExecutor: a call that waits for its session's share begins when the share is free",
          "[scheduling]") {
  Bench bench(16, kThread);
  bench.reader.HoldNew(true);  // both are there before the first ends
  Bench::Answer prompt = bench.Submit(bench.Call(1, 520, 2, 1));
  Bench::Answer row = bench.Submit(bench.Call(1, 1, 2, 2));
  bench.Counts(0);
  bench.reader.HoldNew(false);
  bench.reader.Release();
  CHECK(prompt.get().has_value());
  // Nothing else comes that would wake the executor.
  REQUIRE(row.wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  CHECK(row.get().has_value());
}

TEST_CASE("LayerExecutor: one row of a session does not wait for all that another has asked for",
          "[scheduling]") {
  Bench bench(16, kThread);
  std::vector<LayerCall> calls;
  std::vector<Bench::Answer> answers;
  for (uint64_t i = 0; i < 20; ++i) {
    calls.push_back(bench.Call(i % 2 == 0 ? 2 : 4, 256, 4, i));
    calls.back().session = SessionId{1};
    answers.push_back(bench.Submit(calls.back()));
  }
  for (uint64_t i = 0; i < 10; ++i) {
    LayerCall modest = bench.Call(1, 1, 4, 100 + i);
    modest.session = SessionId{2};
    CHECK(bench.Submit(modest).get()->output == bench.model.Reference(modest));
  }
  // 5120 rows of 4 experts each take far longer than ten rows.
  CHECK(answers.back().wait_for(std::chrono::seconds(0)) != std::future_status::ready);
  for (size_t i = 0; i < calls.size(); ++i) {
    CHECK(answers[i].get()->output == bench.model.Reference(calls[i]));
  }
}

TEST_CASE("LayerExecutor: a run's record says what ended it", "[scheduling]") {
  Bench bench(16, kThread);
  const LayerCall call = bench.Call(1, 1, 1, 9);
  REQUIRE(bench.Submit(call).get()->misses == 1);
  REQUIRE(bench.Submit(call).get()->hits == 1);
  std::vector<LayerRecord> records;
  bench.executor.Inspect([&](const LayerExecutor::View& view) {
    const auto all = view.models.at(bench.id)->records.records();
    records.assign(all.begin(), all.end());
  });
  REQUIRE(records.size() == 2);
  CHECK(records[0].ended_by == EndedBy::kRead);
  CHECK(records[0].misses == 1);
  CHECK(records[1].ended_by == EndedBy::kCompute);
  CHECK(records[1].hits == 1);
  for (const LayerRecord& record : records) {
    CHECK(record.layer == LayerIndex{1});
    CHECK(record.calls == 1);
    CHECK(record.rows == 1);
    CHECK(record.compute.count() > 0);
    CHECK(record.total == record.read_wait + record.compute + record.combine);
  }
}

}  // namespace
}  // namespace moetier
