// What do leases and transfers of many keys cost the executor, whose thread also decodes? 4096
// experts of one size class; printed is the executor's own processor time, so that a busy machine
// and the reader in memory do not count.

#include <fmt/core.h>
#include <time.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/scheduling/session_residency.h"
#include "tests/support/executor_bench.h"
#include "tests/support/residency_client.h"

namespace {

using namespace moetier;  // NOLINT: a program of one file
using testing::ResidencyClient;

constexpr uint32_t kLayers = 2;
constexpr uint32_t kExperts = 2048;
constexpr uint32_t kSlots = kLayers * kExperts + 64;  // with room for calls
constexpr uint32_t kWaiting = 8;                      // Acquires that wait
constexpr std::chrono::microseconds kLong{60'000'000};

struct Bench : ExecutorBench {
  Bench()
      : ExecutorBench(kSlots, FakeRecordReader::Delivery::kManual, "lru",
                      {.experts = kExperts, .hidden = 32, .ffn = 32, .equal_layers = kLayers}) {
    for (uint16_t layer = 0; layer < kLayers; ++layer) {
      for (uint16_t expert = 0; expert < kExperts; ++expert) {
        keys.push_back({id, LayerIndex{layer}, ExpertIndex{expert}});
      }
    }
  }
  ResidencyClient Open(uint64_t session) { return {residency, session, id, 1_GiB}; }

  // Once the executor has done what it was asked before.
  double ExecutorMicroseconds() {
    timespec now{};
    executor.Inspect(
        [&](const LayerExecutor::View&) { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now); });
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
  }
  void Print(std::string_view what, const std::function<void()>& run) {
    const double begin = ExecutorMicroseconds();
    run();
    (void)ExecutorMicroseconds();  // one more turn: the loop's own work after the messages
    fmt::print("{:64} {:10.0f} us\n", what, ExecutorMicroseconds() - begin);
  }

  std::vector<ExpertKey> keys;
  SessionResidency residency{executor};
};

}  // namespace

int main() {
  Bench bench;
  fmt::print("of {} keys, on the executor's thread:\n", bench.keys.size());
  ResidencyClient fills = bench.Open(1);
  bench.Print("a Fill of absent experts",
              [&] { (void)fills.Transfer(bench.keys, kRamPool).get(); });
  ResidencyClient joins = bench.Open(2);
  bench.Print("an Acquire of what is being read", [&] { (void)joins.Acquire(bench.keys).get(); });
  bench.Print("Landed, with all of them under way",
              [&] { (void)fills.Landed(TransferId{0}).get(); });
  ResidencyClient waits = bench.Open(3);
  std::vector<ResidencyClient::Later<std::vector<LeaseOutcome>>> answers;
  bench.Print(fmt::format("{} Acquires that wait for them", kWaiting), [&] {
    for (uint32_t i = 0; i < kWaiting; ++i) {
      answers.push_back(waits.Acquire(bench.keys, {}, kLong));
    }
  });
  ResidencyClient leaves = bench.Open(4);
  (void)leaves.Transfer(bench.keys, kRamPool).get();
  bench.Print("the end of a session that wanted them too",
              [&] { bench.executor.EndSession(leaves.id); });
  bench.Print("the landing of all, and the Acquires' answers", [&] {
    bench.reader.CompleteAll();
    for (auto& answer : answers) (void)answer.get();
  });
  bench.Print("the end of the session that leases them",
              [&] { bench.executor.EndSession(waits.id); });
  std::vector<LeaseId> leases;
  bench.Print("an Acquire of resident experts", [&] {
    const auto outcomes = fills.Acquire(bench.keys).get();
    for (const LeaseOutcome& outcome : outcomes.value()) {
      leases.push_back(std::get<SlotLease>(outcome).lease);
    }
  });
  bench.Print("their Release", [&] { (void)fills.Release(leases).get(); });
  return 0;
}
