// Leases in VRAM and pushes to it, over the emulated device.

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/scheduling/session_residency.h"
#include "daemon/scheduling/status_collector.h"
#include "tests/support/device_bench.h"
#include "tests/support/residency_client.h"

namespace moetier {
namespace {

using testing::DeviceBench;
using testing::ResidencyClient;
using Micros = std::chrono::microseconds;

constexpr Micros kLong{10'000'000};

struct Bench : DeviceBench {
  explicit Bench(const Options& options) : DeviceBench(options) {}
  [[nodiscard]] ExpertKey Key(uint16_t expert, uint16_t layer = 1) const {
    return {id, LayerIndex{layer}, ExpertIndex{expert}};
  }
  ResidencyClient Open(uint64_t session) { return {residency, session, id, 1_GiB}; }
  void Push(ResidencyClient& client, const ExpertKey& key) {
    const TransferOutcome outcome = client.TransferOne(key, kDevicePool);
    const auto landed = client.AwaitTransfer(std::get<TransferId>(outcome));
    CHECK(landed.failed.empty());
  }
  [[nodiscard]] StatusSnapshot Status() {
    StatusSnapshot snapshot;
    executor.Inspect([&](const LayerExecutor::View& view) { CollectModels(view, snapshot); });
    return snapshot;
  }

  SessionResidency residency{executor};
};

LayerCall OnCpu(LayerCall call) {
  call.forced_lane = Raw(LaneKind::kCpu);
  return call;
}

// A device that waits until it may go on.
class Gate {
 public:
  DeviceBench::Options Options() {
    return {.ram = 100, .vram = 25, .wait_until = [open = open_](TimePoint) { open.wait(); }};
  }
  void Open() { opener_.set_value(); }

 private:
  std::promise<void> opener_;
  std::shared_future<void> open_ = opener_.get_future().share();
};

}  // namespace

TEST_CASE("Pushes: an expert goes from the drive to VRAM, and RAM gives it up", "[scheduling]") {
  Bench bench({.ram = 100, .vram = 25});
  ResidencyClient client = bench.Open(1);
  bench.Push(client, bench.Key(3));
  CHECK(bench.InVram(1, 3));
  CHECK_FALSE(bench.InRam(1, 3));
  CHECK(std::holds_alternative<InPlace>(client.TransferOne(bench.Key(3), kDevicePool)));
  const SlotLease lease = client.Lease(bench.Key(3));  // in any pool
  CHECK(lease.pool == kDevicePool);
  CHECK(lease.generation == 1);
  CHECK(client.Lease(bench.Key(3), kDevicePool).slot == lease.slot);
  CHECK(client.Refusal(bench.Key(3), kRamPool).why == NotLeasedWhy::kAbsent);
  CHECK(bench.Status().pools[1].classes[0].leased == 1);
}

TEST_CASE("Pushes: a leased RAM copy stays until the lease ends", "[scheduling]") {
  Bench bench({.ram = 100, .vram = 25});
  ResidencyClient client = bench.Open(1);
  bench.Run(OnCpu(bench.Pick(1, {7})));
  bench.Settle();
  const auto fill = client.TransferOne(bench.Key(2), kRamPool);
  client.AwaitTransfer(std::get<TransferId>(fill));
  const SlotLease lease = client.Lease(bench.Key(2));
  CHECK(lease.pool == kRamPool);
  bench.Push(client, bench.Key(2));
  CHECK(bench.InVram(1, 2));
  CHECK(bench.InRam(1, 2));
  const Bytes record = bench.model.geometry().size_classes[0].slot_bytes;
  CHECK(bench.Status().pools[1].double_resident_bytes == record);
  CHECK(client.Release({lease.lease}).get().value() == 1);
  CHECK_FALSE(bench.InRam(1, 2));
  CHECK(bench.Status().pools[1].double_resident_bytes == Bytes());
  bool told = false;
  for (const Victim& victim : client.heard->victims()) {
    told |= victim.key == bench.Key(2) && victim.pool == kRamPool;
  }
  bench.Settle();
  for (const Victim& victim : client.heard->victims()) {
    told |= victim.key == bench.Key(2) && victim.pool == kRamPool;
  }
  CHECK(told);
}

TEST_CASE("Pushes: there is no room when all of VRAM is leased, and calls go on", "[scheduling]") {
  Bench bench({.ram = 100, .vram = 25});  // 4 slots
  ResidencyClient client = bench.Open(1);
  std::vector<SlotLease> leases;
  for (uint16_t expert = 0; expert < 4; ++expert) {
    bench.Push(client, bench.Key(expert));
    leases.push_back(client.Lease(bench.Key(expert), kDevicePool));
  }
  const TransferOutcome refused = client.TransferOne(bench.Key(5), kDevicePool);
  CHECK(std::get<Error>(refused).reason == Reason::kNoRoom);
  for (uint64_t i = 0; i < 6; ++i) {
    bench.Run(bench.Call(1, 3, 2, i));
    bench.Run(bench.Call(2, 3, 2, i));
  }
  bench.Settle();
  for (uint16_t expert = 0; expert < 4; ++expert) CHECK(bench.InVram(1, expert));
  CHECK(client.Release({leases[0].lease}).get().value() == 1);
  bench.Push(client, bench.Key(5));
  CHECK(bench.InVram(1, 5));
  CHECK_FALSE(bench.InVram(1, 0));
}

TEST_CASE("Pushes: more than the device takes at once wait for their turn", "[scheduling]") {
  Gate gate;
  DeviceBench::Options options = gate.Options();
  options.vram = 75;
  Bench bench(options);
  ResidencyClient client = bench.Open(1);
  std::vector<ExpertKey> keys;
  for (uint16_t expert = 0; expert < 8; ++expert) keys.push_back(bench.Key(expert));
  const auto outcomes = client.Transfer(keys, kDevicePool).get().value();
  auto fence = client.Fence(kDevicePool);
  auto lease = client.Acquire({bench.Key(0)}, kDevicePool, kLong);
  CHECK(client.Landed(TransferId{0}).get()->all_done_below == TransferId{1});
  gate.Open();
  for (const TransferOutcome& outcome : outcomes) {
    CHECK(client.AwaitTransfer(std::get<TransferId>(outcome)).failed.empty());
  }
  CHECK(fence.get().has_value());
  for (uint16_t expert = 0; expert < 8; ++expert) CHECK(bench.InVram(1, expert));
  bench.Settle();
}

TEST_CASE("Pushes: an Acquire of what is being copied waits for it in VRAM", "[scheduling]") {
  Gate gate;
  Bench bench(gate.Options());
  ResidencyClient client = bench.Open(1);
  const auto push = std::get<TransferId>(client.TransferOne(bench.Key(0), kDevicePool));
  bool copying = false;
  while (!copying) {
    bench.executor.Inspect([&](const LayerExecutor::View& view) {
      copying = view.models.at(bench.id)->device_work > 0;
    });
  }
  auto fence = client.Fence(kDevicePool);
  auto lease = client.Acquire({bench.Key(0)}, kDevicePool, kLong);
  CHECK(lease.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready);
  CHECK(fence.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready);
  gate.Open();
  const Result<std::vector<LeaseOutcome>> leased = lease.get();
  CHECK(std::get<SlotLease>(leased->at(0)).pool == kDevicePool);
  CHECK(fence.get().has_value());
  client.AwaitTransfer(push);
}

TEST_CASE("Drains: a victim's copy back that began before has landed", "[scheduling]") {
  Bench bench({.ram = 100, .vram = 25});
  ResidencyClient client = bench.Open(1);
  for (uint16_t expert = 0; expert < 8; ++expert) {
    bench.Push(client, bench.Key(expert));
  }
  CHECK(client.Drain(kDevicePool).get().has_value());
  for (uint16_t expert = 0; expert < 4; ++expert) CHECK(bench.InRam(1, expert));
  uint32_t told = 0;
  for (const Victim& victim : client.heard->victims()) {
    if (victim.pool == kDevicePool) ++told;
  }
  CHECK(told == 4);
}

TEST_CASE("Pushes: the loss of the device fails them, and leases there have ended",
          "[scheduling]") {
  Bench bench({.ram = 100, .vram = 50, .lost_after = 4});
  ResidencyClient client = bench.Open(1);
  bench.Push(client, bench.Key(0));
  const SlotLease lease = client.Lease(bench.Key(0), kDevicePool);
  bool lost = false;
  for (uint16_t expert = 1; expert < 8 && !lost; ++expert) {
    const TransferOutcome push = client.TransferOne(bench.Key(expert), kDevicePool);
    if (const auto* refused = std::get_if<Error>(&push)) {
      CHECK(refused->code == ErrorCode::kUnavailable);
      lost = true;
      continue;
    }
    for (const EndedTransfer& failed : client.AwaitTransfer(std::get<TransferId>(push)).failed) {
      CHECK(failed.failed->code == ErrorCode::kUnavailable);
      lost = true;
    }
  }
  REQUIRE(lost);
  const auto knows = [&] {
    return std::ranges::any_of(bench.Status().fallbacks, [](const FallbackSnapshot& each) {
      return each.name == "device:lost";
    });
  };
  while (!knows()) std::this_thread::yield();
  const TransferOutcome after = client.TransferOne(bench.Key(0), kDevicePool);
  CHECK(std::get<Error>(after).code == ErrorCode::kUnavailable);
  CHECK(client.Refusal(bench.Key(0), kDevicePool).why == NotLeasedWhy::kAbsent);
  CHECK(client.Release({lease.lease}).get().value() == 0);
  CHECK(client.Fence(kDevicePool).get().has_value());
  bench.Run(bench.Call(1, 2, 2, 1));
}

TEST_CASE("Pushes: a session's end gives up what is under way for it", "[scheduling]") {
  Gate gate;
  Bench bench(gate.Options());
  ResidencyClient client = bench.Open(1);
  ResidencyClient other = bench.Open(2);
  client.TransferOne(bench.Key(0), kDevicePool);
  client.TransferOne(bench.Key(1), kDevicePool);
  const auto kept = std::get<TransferId>(other.TransferOne(bench.Key(1), kDevicePool));
  auto fence = client.Fence(kDevicePool);
  auto drain = client.Drain(kDevicePool);
  bench.executor.EndSession(client.id);
  gate.Open();
  CHECK(other.AwaitTransfer(kept).failed.empty());
  CHECK(bench.InVram(1, 1));
  (void)fence.get();
  CHECK(drain.get().has_value());
  bench.Settle();
  bench.executor.Inspect([&](const LayerExecutor::View& view) {
    CHECK(view.models.at(bench.id)->kept_in_vram[0].kept == 0);
    CHECK(view.models.at(bench.id)->kept_in_ram[0].kept == 0);
    CHECK(view.models.at(bench.id)->ledgers[0]->counts().reserved == 0);
  });
}

TEST_CASE("Route: plans a lane where there is a device", "[scheduling]") {
  Bench bench({.ram = 100, .vram = 25});
  ResidencyClient client = bench.Open(1);
  bench.Push(client, bench.Key(0));
  const auto routed = client.Route(LayerIndex{1}, 1, {ExpertIndex{0}, ExpertIndex{1}}).get();
  REQUIRE(routed.has_value());
  CHECK(routed->at(0).pool == kDevicePool);
  CHECK(routed->at(0).lane == Raw(LaneKind::kGpu));
  CHECK(routed->at(1).residence == Residence::kAbsent);
  CHECK(bench.Status().pools[1].classes[0].hits == 1);
  CHECK(bench.Status().pools[0].classes[0].misses == 1);
}

TEST_CASE("Route: where no lane can compute a layer, none is planned", "[scheduling]") {
  Bench bench({.ram = 100, .vram = 25});
  ResidencyClient client = bench.Open(1);
  bench.Push(client, bench.Key(0));
  bench.executor.WithModel(bench.id, [](LoadedModel& model) {
    auto geometry = std::make_shared<ModelGeometry>(*model.geometry);
    for (LayerGeometry& layer : geometry->layers) layer.compute = false;
    model.geometry = std::move(geometry);
  });
  const auto routed = client.Route(LayerIndex{1}, 1, {ExpertIndex{0}}).get();
  REQUIRE(routed.has_value());
  CHECK(routed->at(0).pool == kDevicePool);
  CHECK(routed->at(0).lane == 0);
}

}  // namespace moetier
