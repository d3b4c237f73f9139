#include "daemon/scheduling/layer_executor.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <future>

#include "tests/support/executor_bench.h"

namespace moetier {
namespace {

using Bench = ExecutorBench;
using Answer = Bench::Answer;

constexpr auto kThread = FakeRecordReader::Delivery::kThread;
constexpr auto kManual = FakeRecordReader::Delivery::kManual;

}  // namespace

TEST_CASE("field_07 field_08: many calls on a cache of few slots get the reference's bits",
          "[scheduling]") {
  for (const uint32_t slots : {1u, 2u, 3u, 5u, 16u}) {
    Bench bench(slots, kThread);
    std::vector<LayerCall> calls;
    std::vector<Answer> answers;
    for (uint64_t seed = 0; seed < 24; ++seed) {
      const uint16_t layer = std::array<uint16_t, 3>{1, 2, 4}[seed % 3];
      calls.push_back(bench.Call(layer, seed % 5 == 0 ? 40 : 1, 1 + seed % 4, seed));
      answers.push_back(bench.Submit(calls.back()));
    }
    for (size_t i = 0; i < calls.size(); ++i) {
      INFO("slots " << slots << ", call " << i);
      Result<LayerOutput> answer = answers[i].get();
      REQUIRE(answer.has_value());
      CHECK(answer->output == bench.model.Reference(calls[i]));
      CHECK(answer->masked.empty());
    }
  }
}

TEST_CASE("LayerExecutor: a resident expert is a hit, a read in flight is joined", "[scheduling]") {
  Bench bench(16, kManual);
  LayerCall call = bench.Call(1, 1, 2, 9);
  Answer first = bench.Submit(call);
  while (bench.reader.pending().size() < 2) std::this_thread::yield();
  Answer joined = bench.Submit(call);
  while (bench.Counts(0).in_flight < 2) std::this_thread::yield();
  CHECK(bench.reader.pending().size() == 2);
  bench.reader.CompleteAll();
  CHECK(first.get()->misses == 2);
  CHECK(joined.get()->in_flight == 2);
  CHECK(bench.Submit(call).get()->hits == 2);
  CHECK(bench.reader.pending().empty());
}

TEST_CASE("LayerExecutor: calls that wait for one layer read an expert once", "[scheduling]") {
  Bench bench(16, kManual);
  // Four batches of other layers fill the active set, so that the rest merges in the queue.
  std::vector<Answer> answers;
  for (uint64_t i = 0; i < 4; ++i) answers.push_back(bench.Submit(bench.Call(2, 1, 1, i)));
  const LayerCall call = bench.Call(1, 1, 3, 9);
  for (int i = 0; i < 8; ++i) answers.push_back(bench.Submit(call));
  for (Answer& answer : answers) {
    while (answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      bench.reader.CompleteAll();
      std::this_thread::yield();
    }
    REQUIRE(answer.get().has_value());
  }
  // Eight calls of three experts: had each been granted alone, 21 hits would be counted.
  CHECK(bench.Counts(0).misses + bench.Counts(0).hits + bench.Counts(0).in_flight < 4 + 24);
}

TEST_CASE("LayerExecutor: a session that sends one call is not behind all of one that sends many",
          "[scheduling]") {
  Bench bench(16, kManual);
  std::vector<Answer> greedy;
  for (uint64_t i = 0; i < 40; ++i) {
    LayerCall call = bench.Call(std::array<uint16_t, 3>{1, 2, 4}[i % 3], 64, 2, i);
    call.session = SessionId{1};
    greedy.push_back(bench.Submit(std::move(call)));
  }
  while (bench.reader.pending().empty()) std::this_thread::yield();
  LayerCall call = bench.Call(1, 1, 2, 99);
  call.session = SessionId{2};
  Answer modest = bench.Submit(std::move(call));
  const auto ready = [](const Answer& answer) {
    return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  while (!ready(modest)) {
    bench.reader.CompleteAll();
    std::this_thread::yield();
  }
  CHECK(std::ranges::count_if(greedy, ready) < 20);
  CHECK(modest.get().has_value());
  for (Answer& answer : greedy) {
    while (!ready(answer)) {
      bench.reader.CompleteAll();
      std::this_thread::yield();
    }
    CHECK(answer.get().has_value());
  }
}

TEST_CASE("LayerExecutor: an expert that cannot be read fails its calls and no other",
          "[scheduling]") {
  Bench bench(4, kThread);
  const Extent lost = bench.model.Locate(LayerIndex{1}, ExpertIndex{3});
  bench.reader.Inject({.kind = FakeRecordReader::Fault::Kind::kError,
                       .file = bench.file,
                       .offset = lost.offset,
                       .error_number = EIO});
  LayerCall with = bench.Call(1, 1, 2, 1);
  with.experts = {3, 4};
  LayerCall without = bench.Call(1, 1, 2, 2);
  without.experts = {4, 5};
  const Result<LayerOutput> failed = bench.Submit(with).get();
  REQUIRE(!failed.has_value());
  CHECK(failed.error().code == ErrorCode::kDataLoss);
  CHECK(failed.error().reason == Reason::kReadError);
  CHECK(failed.error().message ==
        fmt::format("synthetic: blk.1 expert 3 at offset {}, {} bytes: Input/output error",
                    lost.offset, lost.bytes));
  CHECK(bench.Submit(without).get()->output == bench.model.Reference(without));

  // Quarantined: not read again until it is lifted.
  const uint64_t reads = bench.reader.stats().errors;
  CHECK(!bench.Submit(with).get().has_value());
  CHECK(bench.reader.stats().errors == reads);
  bench.reader.ClearFaults();
  bench.executor.LiftQuarantine(bench.id);
  CHECK(bench.Submit(with).get()->output == bench.model.Reference(with));
}

TEST_CASE("LayerExecutor: a read that fails once is retried unseen", "[scheduling]") {
  Bench bench(4, kThread);
  bench.reader.Inject({.kind = FakeRecordReader::Fault::Kind::kShort,
                       .file = bench.file,
                       .offset = bench.model.Locate(LayerIndex{2}, ExpertIndex{0}).offset,
                       .error_number = 0,
                       .times = 1});
  LayerCall call = bench.Call(2, 1, 1, 1);
  call.experts = {0};
  CHECK(bench.Submit(call).get()->output == bench.model.Reference(call));
  CHECK(bench.reader.stats().errors == 1);
}

TEST_CASE("LayerExecutor: a call that has not begun ends by deadline, cancel or end of session",
          "[scheduling]") {
  Bench bench(4, kManual);
  std::vector<Answer> running;
  for (uint64_t i = 0; i < 4; ++i) {  // all active batches wait for reads that do not come
    running.push_back(bench.Submit(bench.Call(1, 1, 1, 100 + i)));
    while (bench.reader.pending().empty()) std::this_thread::yield();
  }
  for (const uint16_t layer : std::array<uint16_t, 2>{2, 4})
    running.push_back(bench.Submit(bench.Call(layer, 1, 1, 5)));
  for (int i = 0; i < 4; ++i) running.push_back(bench.Submit(bench.Call(2, 64, 1, 5)));
  (void)bench.Counts(0);  // what comes now finds the active set full, whichever session it is of

  LayerCall late = bench.Call(4, 64, 1, 1);
  late.deadline = bench.clock.Now() + std::chrono::milliseconds(5);
  LayerCall cancelled = bench.Call(4, 64, 1, 2);
  const std::shared_ptr<CallControl> control = cancelled.control;
  LayerCall orphan = bench.Call(4, 64, 1, 3);
  orphan.session = SessionId{77};
  Answer late_answer = bench.Submit(late);
  Answer cancelled_answer = bench.Submit(cancelled);
  Answer orphan_answer = bench.Submit(orphan);
  CHECK(late_answer.get().error().code == ErrorCode::kDeadlineExceeded);
  control->cancelled.store(true);
  bench.executor.EndSession(SessionId{77});
  CHECK(orphan_answer.get().error().code == ErrorCode::kCancelled);
  CHECK(cancelled_answer.get().error().code == ErrorCode::kCancelled);
  for (Answer& answer : running) {
    while (answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      bench.reader.CompleteAll();
      std::this_thread::yield();
    }
    CHECK(answer.get().has_value());
  }
}

TEST_CASE("LayerExecutor: above the queue limit a call is refused at once", "[scheduling]") {
  Bench bench(4, kManual);
  std::vector<Answer> answers;
  for (uint64_t i = 0; i < 64; ++i) answers.push_back(bench.Submit(bench.Call(1, 1, 1, i)));
  const Result<LayerOutput> refused = bench.Submit(bench.Call(1, 1, 1, 1)).get();
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code == ErrorCode::kExhausted);
}

TEST_CASE("LayerExecutor: Stop answers what was accepted and refuses what comes later",
          "[scheduling]") {
  Bench bench(2, kThread);
  std::vector<LayerCall> calls;
  std::vector<Answer> answers;
  for (uint64_t i = 0; i < 20; ++i) {
    calls.push_back(bench.Call(4, 9, 3, i));
    answers.push_back(bench.Submit(calls.back()));
  }
  bench.executor.Stop();
  for (size_t i = 0; i < calls.size(); ++i) {
    CHECK(answers[i].get()->output == bench.model.Reference(calls[i]));
  }
  CHECK(bench.Submit(calls[0]).get().error().reason == Reason::kDraining);
}

TEST_CASE("LayerExecutor: at the deadline of a stop all that is not done ends with DRAINING",
          "[scheduling]") {
  Bench bench(4, FakeRecordReader::Delivery::kManual);
  Answer reads = bench.Submit(bench.Call(1, 300, 4, 1));  // many pieces, and nothing is read
  std::vector<Answer> waits;
  for (uint64_t i = 0; i < 8; ++i) waits.push_back(bench.Submit(bench.Call(4, 64, 3, 10 + i)));
  auto stopped =
      std::async(std::launch::async, [&] { return bench.executor.StopBy(bench.clock.Now()); });
  REQUIRE(reads.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  const Result<LayerOutput> answer = reads.get();
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().code == ErrorCode::kUnavailable);
  CHECK(answer.error().reason == Reason::kDraining);
  for (Answer& each : waits) {
    REQUIRE(each.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
    CHECK(each.get().error().reason == Reason::kDraining);
  }
  // Only the reads that had begun are awaited: their buffers are the kernel's until then.
  while (stopped.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    bench.reader.CompleteAll();
  }
}

TEST_CASE("LayerExecutor: a removed model answers its calls first", "[scheduling]") {
  Bench bench(2, kThread);
  std::vector<LayerCall> calls;
  std::vector<Answer> answers;
  for (uint64_t i = 0; i < 10; ++i) {
    calls.push_back(bench.Call(2, 5, 3, i));
    answers.push_back(bench.Submit(calls.back()));
  }
  const std::unique_ptr<LoadedModel> removed = bench.executor.RemoveModel(bench.id).value();
  REQUIRE(removed);
  CHECK(removed->reads_in_flight == 0);
  for (size_t i = 0; i < calls.size(); ++i) {
    CHECK(answers[i].get()->output == bench.model.Reference(calls[i]));
  }
  CHECK(bench.executor.RemoveModel(bench.id).value() == nullptr);
}

TEST_CASE("LayerExecutor: after Stop a model is handed back and a pin refused, neither waits",
          "[scheduling]") {
  Bench bench(6, kThread);
  bench.executor.Stop();
  const Result<uint32_t> pin = bench.executor.Pin({{bench.id, LayerIndex{1}, ExpertIndex{0}}});
  REQUIRE(!pin.has_value());
  CHECK(pin.error().reason == Reason::kDraining);
  CHECK(bench.executor.RemoveModel(bench.id).value() != nullptr);
}

TEST_CASE("LayerExecutor: a pinned expert stays a hit, and pins leave room for calls",
          "[scheduling]") {
  Bench bench(6, kThread);  // top_k 2: two calls' reservations leave two slots to pin
  const ExpertKey pinned{bench.id, LayerIndex{1}, ExpertIndex{0}};
  REQUIRE(bench.executor.Pin({pinned}).has_value());
  REQUIRE(bench.executor.Pin({{bench.id, LayerIndex{1}, ExpertIndex{1}}}).has_value());
  const Result<uint32_t> refused = bench.executor.Pin({{bench.id, LayerIndex{1}, ExpertIndex{2}}});
  REQUIRE(!refused.has_value());
  CHECK(refused.error().reason == Reason::kNoRoom);
  for (uint64_t i = 0; i < 6; ++i) {
    const LayerCall sweep = bench.Call(2, 30, 4, i);
    CHECK(bench.Submit(sweep).get()->output == bench.model.Reference(sweep));
  }
  LayerCall call = bench.Call(1, 1, 1, 1);
  call.experts = {0};
  CHECK(bench.Submit(call).get()->hits == 1);
  bench.executor.Unpin({pinned});
  CHECK(bench.executor.Pin({{bench.id, LayerIndex{1}, ExpertIndex{2}}}).has_value());
}

TEST_CASE("LayerExecutor: pins that do not all fit pin nothing and say how many would",
          "[scheduling]") {
  Bench bench(6, kThread);  // two slots to pin
  std::vector<ExpertKey> keys;
  for (uint16_t e = 0; e < 3; ++e) keys.push_back({bench.id, LayerIndex{1}, ExpertIndex{e}});
  const Result<uint32_t> refused = bench.executor.Pin(keys);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().reason == Reason::kNoRoom);
  CHECK_THAT(refused.error().message,
             Catch::StartsWith("nothing was pinned: 3 more are wanted, 2 would fit"));
  CHECK(bench.executor.Unpin(keys) == 0);
  keys.pop_back();
  CHECK(bench.executor.Pin(keys).value() == 2);
}

TEST_CASE("LayerExecutor: a pin whose record cannot be read leaves none of its call pinned",
          "[scheduling]") {
  Bench bench(6, kThread);
  const ExpertKey good{bench.id, LayerIndex{1}, ExpertIndex{0}};
  const ExpertKey bad{bench.id, LayerIndex{1}, ExpertIndex{1}};
  bench.reader.Inject({.kind = FakeRecordReader::Fault::Kind::kError,
                       .file = bench.file,
                       .offset = bench.model.Locate(bad.layer, bad.expert).offset,
                       .error_number = EIO});
  REQUIRE(!bench.executor.Pin({good, bad}).has_value());
  CHECK(bench.executor.Unpin({good, bad}) == 0);
}

TEST_CASE("LayerExecutor: pins and unpins are counted when they change something", "[scheduling]") {
  Bench bench(6, kThread);
  const ExpertKey first{bench.id, LayerIndex{1}, ExpertIndex{0}};
  const ExpertKey second{bench.id, LayerIndex{1}, ExpertIndex{1}};
  CHECK(bench.executor.Pin({first, first}).value() == 1);
  CHECK(bench.executor.Pin({first, second}).value() == 1);
  CHECK(bench.executor.Unpin({first}) == 1);
  CHECK(bench.executor.Unpin({first, second}) == 1);
  CHECK(bench.executor.Unpin({first, second}) == 0);
}

}  // namespace moetier
