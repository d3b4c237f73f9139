// What becomes of leases, and of calls that wait for them, when the device that has the slots is
// lost.

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "daemon/scheduling/session_residency.h"
#include "tests/support/device_bench.h"
#include "tests/support/residency_client.h"

namespace moetier {
namespace {

using testing::DeviceBench;
using testing::ResidencyClient;
using Micros = std::chrono::microseconds;

constexpr Micros kLong{10'000'000};

// What the device's copies go through. Threads: any.
class Gate {
 public:
  void Shut() { Set(true); }
  void Open() { Set(false); }
  void Pass() {
    MutexLock lock(mu_);
    while (shut_) changed_.wait(mu_);
  }

 private:
  void Set(bool shut) {
    MutexLock lock(mu_);
    shut_ = shut;
    changed_.notify_all();
  }

  Mutex mu_;
  ConditionVariable changed_;
  bool shut_ GUARDED_BY(mu_) = false;
};

struct Bench : DeviceBench {
  Bench() : Bench(std::make_shared<Gate>()) {}
  explicit Bench(std::shared_ptr<Gate> of_copies)
      : DeviceBench(
            {.ram = 100, .vram = 50, .wait_until = [of_copies](TimePoint) { of_copies->Pass(); }}),
        gate(std::move(of_copies)) {}
  ~Bench() { gate->Open(); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  [[nodiscard]] ExpertKey Key(uint16_t expert) const {
    return {id, LayerIndex{1}, ExpertIndex{expert}};
  }
  [[nodiscard]] Bytes slot_bytes() const { return model.geometry().size_classes[0].slot_bytes; }
  ResidencyClient Attach(uint64_t session, uint64_t slots = 100) {
    return {residency, session, id, slot_bytes() * slots};
  }
  SlotLease LeaseOnDevice(ResidencyClient& client, uint16_t expert) {
    const TransferOutcome push = client.TransferOne(Key(expert), kDevicePool);
    if (const auto* number = std::get_if<TransferId>(&push)) {
      CHECK(client.AwaitTransfer(*number).failed.empty());
    }
    return client.Lease(Key(expert), kDevicePool);
  }
  SlotLease LeaseInRam(ResidencyClient& client, uint16_t expert) {
    const TransferOutcome fill = client.TransferOne(Key(expert), kRamPool);
    if (const auto* number = std::get_if<TransferId>(&fill)) client.AwaitTransfer(*number);
    return client.Lease(Key(expert), kRamPool);
  }
  // Returns when a copy has begun, and has not ended.
  void AwaitCopy() {
    bool copying = false;
    while (!copying) {
      executor.Inspect(
          [&](const LayerExecutor::View& view) { copying = view.models.at(id)->device_work > 0; });
    }
  }
  // As a device tells it, and the executor has heard of it when this returns.
  void Lose() {
    executor.OnDeviceLost({ErrorCode::kUnavailable, Reason::kIo, "gpu0 is lost: fell off"});
    executor.Inspect([](const LayerExecutor::View&) {});
  }
  // Slots of the first size class on the device that somebody holds.
  [[nodiscard]] uint32_t HeldOnDevice() {
    uint32_t held = 0;
    executor.Inspect([&](const LayerExecutor::View& view) {
      const LoadedModel& of = *view.models.at(id);
      held = of.vram->ledger(SizeClass{0}).counts().reserved + of.kept_in_vram[0].kept;
    });
    return held;
  }

  SessionResidency residency{executor};
  const std::shared_ptr<Gate> gate;  // the device's too
};

}  // namespace

TEST_CASE("Lost device: leases on it end at once, and their sessions are told which",
          "[scheduling]") {
  Bench bench;
  ResidencyClient client = bench.Attach(1);
  ResidencyClient other = bench.Attach(2);
  const SlotLease first = bench.LeaseOnDevice(client, 0);
  const SlotLease second = bench.LeaseOnDevice(client, 1);
  const SlotLease theirs = bench.LeaseOnDevice(other, 0);
  const SlotLease in_ram = bench.LeaseInRam(client, 4);
  bench.Lose();
  REQUIRE(client.heard->lost().size() == 1);
  const LostLeases lost = client.heard->lost()[0];
  CHECK(lost.leases == std::vector{first.lease, second.lease});
  CHECK(lost.pool == kDevicePool);
  CHECK(lost.why.code == ErrorCode::kUnavailable);
  CHECK(lost.why.reason == Reason::kDeviceLost);
  CHECK(lost.why.message == "gpu0 is lost: fell off");
  REQUIRE(other.heard->lost().size() == 1);
  CHECK(other.heard->lost()[0].leases == std::vector{theirs.lease});
  CHECK(bench.HeldOnDevice() == 0);
  CHECK_FALSE(bench.InVram(1, 0));
  // The lease in RAM is as good as before.
  CHECK(bench.InRam(1, 4));
  CHECK(client.Release({in_ram.lease}).get().value() == 1);
  bench.Run(bench.Call(1, 2, 2, 1));
}

TEST_CASE("Lost device: the slots that were leased are told as victims, once", "[scheduling]") {
  Bench bench;
  ResidencyClient client = bench.Attach(1);
  const SlotLease lease = bench.LeaseOnDevice(client, 0);
  bench.LeaseOnDevice(client, 0);
  bench.Lose();
  uint32_t told = 0;
  bench.executor.Inspect([](const LayerExecutor::View&) {});  // another turn has begun
  for (const Victim& victim : client.heard->victims()) {
    if (victim.pool != kDevicePool || victim.key != bench.Key(0)) continue;
    CHECK(victim.generation == lease.generation);
    ++told;
  }
  CHECK(told == 1);
}

TEST_CASE("Lost device: a later Release of its leases does no harm and counts none",
          "[scheduling]") {
  Bench bench;
  ResidencyClient client = bench.Attach(1);
  const SlotLease lost = bench.LeaseOnDevice(client, 0);
  const SlotLease in_ram = bench.LeaseInRam(client, 4);
  bench.Lose();
  CHECK(client.Release({lost.lease, in_ram.lease}).get().value() == 1);
  CHECK(client.ReleaseKeys({bench.Key(0)}).get().value() == 0);
  CHECK(bench.HeldOnDevice() == 0);
}

TEST_CASE("Lost device: an Acquire that waits for it fails with its loss, and leases nothing",
          "[scheduling]") {
  Bench bench;
  ResidencyClient client = bench.Attach(1);
  const SlotLease lease = bench.LeaseOnDevice(client, 4);
  CHECK(client.Release({lease.lease}).get().value() == 1);
  bench.gate->Shut();
  const auto push = std::get<TransferId>(client.TransferOne(bench.Key(0), kDevicePool));
  bench.AwaitCopy();
  auto waits = client.Acquire({bench.Key(0)}, kDevicePool, kLong);
  auto has_one = client.Acquire({bench.Key(4), bench.Key(0)}, kDevicePool, kLong);
  CHECK(has_one.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready);
  bench.Lose();
  // Now, though the copy has not ended.
  for (auto* const each : {&waits, &has_one}) {
    const Result<std::vector<LeaseOutcome>> answer = each->get();
    REQUIRE_FALSE(answer.has_value());
    CHECK(answer.error().code == ErrorCode::kUnavailable);
    CHECK(answer.error().reason == Reason::kDeviceLost);
    CHECK(answer.error().message == "gpu0 is lost: fell off");
  }
  REQUIRE(client.heard->ended().size() == 2);  // the push before it
  CHECK(client.heard->ended()[1].transfer == push);
  CHECK(client.heard->ended()[1].failed->reason == Reason::kDeviceLost);
  CHECK(client.heard->lost().empty());  // it knew of none
  bench.executor.Inspect([&](const LayerExecutor::View& view) {
    CHECK(view.models.at(bench.id)->kept_in_ram[0].kept == 0);
    CHECK(view.models.at(bench.id)->kept_in_vram[0].kept == 0);
  });
  bench.gate->Open();
  bench.Settle();
  CHECK(bench.HeldOnDevice() == 0);
}

TEST_CASE("Lost device: a Fence and a Drain fail, though its copies have not ended",
          "[scheduling]") {
  Bench bench;
  ResidencyClient client = bench.Attach(1);
  bench.gate->Shut();
  REQUIRE(std::holds_alternative<TransferId>(client.TransferOne(bench.Key(0), kDevicePool)));
  bench.AwaitCopy();
  auto before = client.Fence(kDevicePool);
  CHECK(before.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready);
  bench.Lose();
  CHECK(before.get().error().reason == Reason::kDeviceLost);
  CHECK(client.Fence(kDevicePool).get().error().reason == Reason::kDeviceLost);
  CHECK(client.Fence(kRamPool).get().has_value());
  CHECK(client.Drain(kDevicePool).get().has_value());  // no copy back is under way
  bench.gate->Open();
  bench.Settle();
  CHECK(client.Fence(kDevicePool).get().has_value());
}

TEST_CASE("Lost device: an Acquire that has leased on it and waits for RAM fails too",
          "[scheduling]") {
  Bench bench;
  ResidencyClient client = bench.Attach(1);
  const SlotLease lease = bench.LeaseOnDevice(client, 0);
  CHECK(client.Release({lease.lease}).get().value() == 1);
  Result<std::vector<LeaseOutcome>> answer = std::vector<LeaseOutcome>();
  // In one message, so that the read cannot land between the two calls.
  bool answered = false;
  bench.executor.AtDesk([&](ResidencyDesk& desk) {
    desk.Transfer({.session = client.id, .keys = {bench.Key(7)}, .to = kRamPool},
                  [](const Result<std::vector<TransferOutcome>>& /*outcomes*/) {});
    desk.Acquire({.session = client.id,
                  .call = {},
                  .keys = {bench.Key(0), bench.Key(7)},
                  .pool = std::nullopt,
                  .wait = kLong},
                 [&](const Result<std::vector<LeaseOutcome>>& outcomes) {
                   answer = outcomes;
                   answered = true;
                 });
    const Error why{ErrorCode::kUnavailable, Reason::kDeviceLost, "gpu0 is lost"};
    CHECK_FALSE(answered);
    CHECK(desk.EndOnDevice(why).leases == 0);  // that the session knew of
    CHECK(answered);
  });
  bench.executor.Inspect([](const LayerExecutor::View&) {});
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().reason == Reason::kDeviceLost);
  CHECK(bench.HeldOnDevice() == 0);
}

TEST_CASE("Lost device: what its leases and transfers were charged may be leased again",
          "[scheduling]") {
  Bench bench;
  ResidencyClient client = bench.Attach(1, 3);
  bench.LeaseOnDevice(client, 0);
  bench.LeaseOnDevice(client, 1);
  bench.gate->Shut();
  REQUIRE(std::holds_alternative<TransferId>(client.TransferOne(bench.Key(2), kDevicePool)));
  const TransferOutcome refused = client.TransferOne(bench.Key(5), kRamPool);
  REQUIRE(std::get<Error>(refused).reason == Reason::kQuota);
  bench.Lose();
  bench.gate->Open();
  for (uint16_t expert = 4; expert < 7; ++expert) bench.LeaseInRam(client, expert);
  CHECK(client.Acquire({bench.Key(4)}).get().error().reason == Reason::kQuota);
}

TEST_CASE("Lost device: a pin stays, of what was leased there too", "[scheduling]") {
  Bench bench;
  ResidencyClient client = bench.Attach(1);
  bench.LeaseOnDevice(client, 0);
  CHECK(bench.executor.Pin({bench.Key(0)}).value() == 1);
  bench.Lose();
  CHECK(client.heard->lost().size() == 1);
  CHECK(bench.InRam(1, 0));
  bench.executor.Inspect([&](const LayerExecutor::View& view) {
    CHECK(view.models.at(bench.id)->pinned[0] == 1);
    CHECK(view.models.at(bench.id)->ledgers[0]->counts().reserved == 1);
  });
  CHECK(bench.executor.Unpin({bench.Key(0)}) == 1);
}

TEST_CASE("Lost device: leases that it had do not keep the model from being unloaded",
          "[scheduling]") {
  Bench bench;
  ResidencyClient client = bench.Attach(1);
  const SlotLease lease = bench.LeaseOnDevice(client, 0);
  CHECK(bench.executor.CheckUnleased(bench.id).error().code == ErrorCode::kFailedPrecondition);
  bench.Lose();
  CHECK(bench.executor.CheckUnleased(bench.id).has_value());
  const auto removed = bench.executor.RemoveModel(bench.id);
  REQUIRE(removed.has_value());
  CHECK(*removed != nullptr);
  CHECK(client.Release({lease.lease}).get().error().reason == Reason::kDraining);
}

TEST_CASE("Lost device: later nothing is there, and pushes are refused with its loss",
          "[scheduling]") {
  Bench bench;
  ResidencyClient client = bench.Attach(1);
  bench.LeaseOnDevice(client, 0);
  bench.Lose();
  CHECK(client.Refusal(bench.Key(0), kDevicePool, kLong).why == NotLeasedWhy::kAbsent);
  const TransferOutcome push = client.TransferOne(bench.Key(1), kDevicePool);
  CHECK(std::get<Error>(push).code == ErrorCode::kUnavailable);
  CHECK(std::get<Error>(push).reason == Reason::kDeviceLost);
}

}  // namespace moetier
