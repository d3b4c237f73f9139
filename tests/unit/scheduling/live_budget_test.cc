#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "tests/support/demo_core.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_host.h"

namespace moetier {
namespace {

using testing::DemoCore;
using testing::Eventually;

struct Slots {
  uint32_t slots = 0;
  uint32_t resident = 0;
  Bytes memory;
  Bytes budget;
};

Slots SlotsOf(const DemoCore& demo) {
  Slots all;
  const StatusSnapshot snapshot = demo.core->Snapshot();
  for (const SizeClassSnapshot& each : snapshot.pools.at(0).classes) {
    all.slots += each.slots;
    all.resident += each.resident;
  }
  all.memory = snapshot.pools.at(0).used;
  all.budget = snapshot.pools.at(0).budget;
  return all;
}

ModelOptions WithRam(const DemoCore& demo, MemoryBudget ram) {
  ModelOptions options;
  options.name = "demo";
  options.directory = demo.folder.File("store");
  options.ram = ram;
  return options;
}

Bytes TotalOf(const DemoCore& demo) { return demo.core->FindModel("demo")->geometry->TotalBytes(); }

}  // namespace

TEST_CASE("Live budget: memory and slots shrink and grow, within what was asked for",
          "[scheduling]") {
  DemoCore demo;
  demo.Start(WithRam(demo, Percent{100}));
  demo.HitRate(0, 60);
  const Slots whole = SlotsOf(demo);
  CHECK(whole.slots == 192);
  const Bytes quarter(TotalOf(demo).count() / 4);
  const Bytes in_force = demo.core->SetBudget({demo.id(), kRamPool}, quarter, {}).value();
  CHECK(in_force <= quarter);
  const Slots small = SlotsOf(demo);
  CHECK(small.memory == in_force);
  CHECK(small.budget == quarter);
  CHECK(small.resident <= small.slots);
  CHECK(small.slots < 50);
  demo.HitRate(60, 20);
  CHECK(SlotsOf(demo).memory == in_force);
  REQUIRE(demo.core->SetBudget({demo.id(), kRamPool}, Bytes(UINT64_MAX), {}).has_value());
  CHECK(SlotsOf(demo).slots == 192);
  CHECK(SlotsOf(demo).memory == whole.memory);
}

TEST_CASE("Live budget: a model that was loaded small grows to all of its experts",
          "[scheduling]") {
  DemoCore demo;
  demo.Start(WithRam(demo, Percent{10}));
  REQUIRE(demo.core->SetBudget({demo.id(), kRamPool}, TotalOf(demo), {}).has_value());
  CHECK(SlotsOf(demo).slots == 192);
  demo.HitRate(0, 100);
  CHECK(demo.HitRate(0, 100) == 100);
}

TEST_CASE("Live budget: a larger budget is filled with what is hot", "[scheduling]") {
  DemoCore demo;
  demo.Start(WithRam(demo, Percent{25}));
  demo.HitRate(0, 100);
  REQUIRE(demo.core->SetBudget({demo.id(), kRamPool}, TotalOf(demo), {}).has_value());
  REQUIRE(demo.core->AwaitPreheat(demo.id(), testing::AtOnce).has_value());
  CHECK(demo.HitRate(0, 100) == 100);
}

TEST_CASE("Live budget: what cannot be is refused with the numbers, and nothing changes",
          "[scheduling]") {
  DemoCore demo;
  demo.Start(WithRam(demo, Percent{50}));
  const Slots before = SlotsOf(demo);
  CHECK(demo.core->SetBudget({demo.id(), kRamPool}, 100_KiB, {}).error().reason ==
        Reason::kBudgetTooSmall);
  std::vector<ExpertIndex> pinned;
  for (uint16_t i = 0; i < 20; ++i) pinned.push_back(ExpertIndex{i});
  REQUIRE(demo.core->Pin(demo.id(), LayerIndex{0}, pinned).has_value());
  const auto refused =
      demo.core->SetBudget({demo.id(), kRamPool}, Bytes(TotalOf(demo).count() / 10), {});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().reason == Reason::kNoRoom);
  CHECK_THAT(refused.error().message, Catch::Contains("20 are pinned"));
  CHECK(demo.core->SetBudget({ModelId{99}, kRamPool}, 1_GiB, {}).error().reason ==
        Reason::kUnknownModel);
  const Slots after = SlotsOf(demo);
  CHECK(after.slots == before.slots);
  CHECK(after.memory == before.memory);
  CHECK(after.budget == before.budget);
}

TEST_CASE("Live budget: a raise that the host refuses leaves each size class as it was",
          "[scheduling]") {
  const FakeHost host;
  DemoCore demo;
  demo.adjust = [&](ExpertCore::Options& options) { options.arena.roots = host.roots(); };
  // 16 slots of 27 pages and 15 of 32: five pages more could be a slot of 32 in place of one of 27.
  demo.Start(WithRam(demo, Bytes(912 * 4096)));
  host.Write("proc/meminfo", "MemTotal: 134217728 kB\nMemFree: 0 kB\nMemAvailable: 0 kB\n");
  const auto classes = [&] {
    std::vector<uint32_t> slots;
    const StatusSnapshot status = demo.core->Snapshot();
    for (const SizeClassSnapshot& each : status.pools.at(0).classes) slots.push_back(each.slots);
    return slots;
  };
  const std::vector<uint32_t> before = classes();
  REQUIRE(before == std::vector<uint32_t>{16, 15});
  const uint64_t budget = SlotsOf(demo).budget.count();
  uint32_t refused = 0;
  for (uint64_t more = 4096; more <= 64 * 4096; more += 4096) {
    const Result<Bytes> set = demo.core->SetBudget({demo.id(), kRamPool}, Bytes(budget + more), {});
    INFO(more << " bytes more");
    REQUIRE(classes() == before);
    if (set.has_value()) continue;  // less than a slot more
    ++refused;
    REQUIRE(set.error().reason == Reason::kMemoryLimit);
  }
  CHECK(refused > 0);
}

TEST_CASE("Live budget: loans are counted from the original, and the last replaces the others",
          "[scheduling]") {
  using std::chrono::seconds;
  DemoCore demo;
  demo.Start(WithRam(demo, Percent{50}));
  const Slots before = SlotsOf(demo);
  const Bytes quarter(TotalOf(demo).count() / 4);
  const BudgetLoan first =
      demo.core->LendBudget({demo.id(), kRamPool}, quarter, seconds(3600)).value();
  CHECK(first.original == before.budget);
  const Slots lent = SlotsOf(demo);
  CHECK(lent.slots < before.slots);
  const BudgetLoan again =
      demo.core->LendBudget({demo.id(), kRamPool}, quarter, seconds(3600)).value();
  CHECK(again.in_force == first.in_force);
  CHECK(again.original == first.original);
  CHECK(SlotsOf(demo).slots == lent.slots);
  const auto all = demo.core->LendBudget({demo.id(), kRamPool}, before.budget, seconds(3600));
  CHECK(all.error().reason == Reason::kBudgetTooSmall);
  CHECK(SlotsOf(demo).slots == lent.slots);
  REQUIRE(demo.core->LendBudget({demo.id(), kRamPool}, Bytes(quarter.count() / 2), seconds(1))
              .has_value());
  CHECK(SlotsOf(demo).slots > lent.slots);
  CHECK(Eventually([&] { return SlotsOf(demo).slots == before.slots; }));
  CHECK(SlotsOf(demo).budget == before.budget);
}

TEST_CASE("Live budget: the warning of too little memory comes and goes with the budget",
          "[scheduling]") {
  DemoCore demo;
  demo.Start(WithRam(demo, Percent{50}));
  const auto warned = [&] {
    for (const std::string& warning : demo.core->Snapshot().warnings) {
      if (warning.find("fewer than one token's") != std::string::npos) return true;
    }
    return false;
  };
  CHECK_FALSE(warned());
  const Bytes total = TotalOf(demo);
  REQUIRE(demo.core->SetBudget({demo.id(), kRamPool}, Bytes(total.count() / 10), {}).has_value());
  CHECK(warned());
  REQUIRE(demo.core->SetBudget({demo.id(), kRamPool}, Bytes(total.count() / 2), {}).has_value());
  CHECK_FALSE(warned());
}

TEST_CASE(
    "Live budget: what was changed for a while is restored by itself, to what was there first",
    "[scheduling]") {
  using std::chrono::seconds;
  DemoCore demo;
  demo.Start(WithRam(demo, Percent{50}));
  const Slots before = SlotsOf(demo);
  const Bytes total = TotalOf(demo);
  REQUIRE(demo.core->SetBudget({demo.id(), kRamPool}, Bytes(total.count() / 4), seconds(3600))
              .has_value());
  REQUIRE(demo.core->SetBudget({demo.id(), kRamPool}, Bytes(total.count() / 8), seconds(1))
              .has_value());
  CHECK(SlotsOf(demo).slots < before.slots / 2);
  CHECK(Eventually([&] { return SlotsOf(demo).slots == before.slots; }));
  CHECK(SlotsOf(demo).budget == before.budget);
}

TEST_CASE("Live budget: calls give the same bits while it changes under them", "[scheduling]") {
  DemoCore demo;
  demo.Start(WithRam(demo, Percent{100}));
  std::atomic<uint32_t> refused{0};
  const uint64_t total = TotalOf(demo).count();
  CHECK(demo.WrongAnswersUnder([&](uint64_t i) {
    const Bytes bytes(total / (1 + i * 7 % 15));
    if (!demo.core->SetBudget({demo.id(), kRamPool}, bytes, {}).has_value()) ++refused;
  }) == 0);
  CHECK(refused == 0);
}

TEST_CASE("Live budget: an unload waits for a change under way, and what was lent is forgotten",
          "[scheduling]") {
  DemoCore demo;
  demo.Start(WithRam(demo, Percent{100}));
  const ModelId id = demo.id();
  REQUIRE(demo.core
              ->SetBudget({id, kRamPool}, Bytes(TotalOf(demo).count() / 4), std::chrono::seconds(1))
              .has_value());
  std::jthread change([&] { (void)demo.core->SetBudget({id, kRamPool}, Bytes(UINT64_MAX), {}); });
  REQUIRE(demo.core->UnloadModel("demo").has_value());
  change.join();
  CHECK(demo.core->SetBudget({id, kRamPool}, 1_GiB, {}).error().reason == Reason::kUnknownModel);
}

}  // namespace moetier
