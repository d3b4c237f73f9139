#include "daemon/scheduling/vram_pool.h"

#include <catch2/catch.hpp>

#include "tests/support/synthetic_model.h"
#include "tiers/device/emulated_device.h"

namespace moetier {
namespace {

using testing::SyntheticModel;

constexpr ModelId kModel{1};

struct Bench {
  explicit Bench(Bytes budget) : device({.budget = budget}, clock, kernels) {}

  Result<std::unique_ptr<VramPool>> Make(const MemoryBudget& budget) {
    return VramPool::Create({.budget = budget, .budget_key = "models[m].vram"}, kModel,
                            model.geometry(), device);
  }
  ExpertKey Key(uint16_t expert) const { return {kModel, LayerIndex{1}, ExpertIndex{expert}}; }

  SteadyClock clock;
  kernels::ExpertKernels kernels =
      kernels::ExpertKernels::Create(kernels::InstructionSet::kScalar).value();
  SyntheticModel model{{.experts = 8, .hidden = 64, .ffn = 64}};  // 16 and 8 records
  EmulatedDevice device;
};

constexpr SizeClass kClass{0};

// A copy of the key is asked for, and begins in the place of `victim`.
Ticket Begin(VramPool& pool, const ExpertKey& key, uint64_t wave,
             const std::optional<ExpertKey>& victim = std::nullopt) {
  CommandList commands;
  pool.ledger(kClass).Step(ReserveWave{.wave = WaveId{wave}, .keys = std::span(&key, 1)}, commands);
  const Ticket ticket = std::get<StartRead>(commands.back()).ticket;
  CHECK(pool.CopyBegins(kClass, ticket.slot, key) == victim);
  return ticket;
}

void Land(VramPool& pool, const ExpertKey& key, const Ticket& ticket, uint64_t wave) {
  CommandList commands;
  pool.ledger(kClass).Step(ReadLanded{.ticket = ticket}, commands);
  pool.CopyEnded(kClass, ticket.slot, key, DeviceOutcome::kDone);
  pool.ledger(kClass).Step(ReleaseWave{.wave = WaveId{wave}}, commands);
}

}  // namespace

TEST_CASE("VramPool: a share above what the device has left is what it has left", "[scheduling]") {
  Bench bench(128_KiB);
  const std::unique_ptr<VramPool> pool = bench.Make(Percent{100}).value();
  CHECK(pool->size() <= 128_KiB);
  CHECK(pool->size() > 96_KiB);
  CHECK(bench.device.free() == 128_KiB - pool->size());
}

TEST_CASE("VramPool: a device without room for a slot of each size class is refused",
          "[scheduling]") {
  Bench bench(24_KiB);
  const auto refused = bench.Make(Percent{100});
  REQUIRE(!refused.has_value());
  CHECK(refused.error().reason == Reason::kBudgetTooSmall);
  CHECK_THAT(refused.error().message, Catch::StartsWith("models[m].vram: a budget of 24.0 KiB"));
  CHECK(bench.device.free() == 24_KiB);
}

TEST_CASE("VramPool: a copy begins only where a slot is free or evictable", "[scheduling]") {
  Bench bench(64_MiB);
  const std::unique_ptr<VramPool> pool = bench.Make(Percent{12.5}).value();
  REQUIRE(pool->ledger(kClass).slot_count() == 2);
  const Ticket first = Begin(*pool, bench.Key(0), 1);
  CHECK_FALSE(pool->MayEnter(kClass, bench.Key(0)));  // on its way
  const Ticket second = Begin(*pool, bench.Key(1), 2);
  CHECK_FALSE(pool->MayEnter(kClass, bench.Key(2)));
  Land(*pool, bench.Key(0), first, 1);
  CHECK(pool->MayEnter(kClass, bench.Key(2)));
  Land(*pool, bench.Key(1), second, 2);

  const Ticket third = Begin(*pool, bench.Key(2), 3, bench.Key(0));
  CHECK(third.slot == first.slot);
  CHECK_FALSE(pool->IsResident(kClass, bench.Key(0)));
  Land(*pool, bench.Key(2), third, 3);
  CHECK(pool->counters().copies_in == 3);
}

TEST_CASE("VramPool: few copies are under way at one time", "[scheduling]") {
  Bench bench(64_MiB);
  const std::unique_ptr<VramPool> pool = bench.Make(Percent{100}).value();
  for (uint16_t expert = 0; expert < VramPool::kMaxCopies; ++expert) {
    REQUIRE(pool->MayEnter(kClass, bench.Key(expert)));
    Begin(*pool, bench.Key(expert), 1 + expert);
  }
  CHECK_FALSE(pool->MayEnter(kClass, bench.Key(7)));
}

TEST_CASE("VramPool: the second touch counts from the last entry", "[scheduling]") {
  Bench bench(64_MiB);
  const std::unique_ptr<VramPool> pool =
      VramPool::Create({.budget = Percent{100},
                        .budget_key = "models[m].vram",
                        .admission = VramAdmission::kSecondTouch},
                       kModel, bench.model.geometry(), bench.device)
          .value();
  CHECK_FALSE(pool->WantsIn(bench.Key(0)));
  CHECK(pool->WantsIn(bench.Key(0)));
  Begin(*pool, bench.Key(0), 1);
  CHECK_FALSE(pool->WantsIn(bench.Key(0)));
}

}  // namespace moetier
