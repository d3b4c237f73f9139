#include <atomic>
#include <catch2/catch.hpp>

#include "tests/support/demo_core.h"
#include "tests/support/eventually.h"

namespace moetier {
namespace {

using testing::DemoCore;
using testing::Eventually;

constexpr std::string_view kCard = "card";

struct Card {
  uint64_t lost_after = 0;
  std::chrono::milliseconds copy_time{};  // zero: as fast as memory goes
};

// A core with an emulated device, and the demo model.
class Demo : public DemoCore {
 public:
  explicit Demo(Bytes device, MemoryBudget vram, MemoryBudget ram = Percent{100}, Card card = {}) {
    adjust = [=](ExpertCore::Options& options) {
      EmulatedDevice::Options& emulated = options.emulated.emplace_back();
      emulated.name = kCard;
      emulated.budget = device;
      emulated.lost_after = card.lost_after;
      emulated.copy_latency = card.copy_time;
      if (card.copy_time.count() == 0) emulated.wait_until = [](TimePoint) {};
    };
    Start(WithVram("demo", vram, ram));
  }

  ModelOptions WithVram(const std::string& name, MemoryBudget vram, MemoryBudget ram) {
    ModelOptions options;
    options.name = name;
    options.directory = folder.File("store");
    options.ram = ram;
    options.vram = vram;
    return options;
  }
  [[nodiscard]] ModelPool vram() const { return {id(), kDevicePool}; }
  [[nodiscard]] Bytes total() const { return core->FindModel("demo")->geometry->TotalBytes(); }
};

struct Slots {
  uint32_t slots = 0;
  uint32_t resident = 0;
  Bytes memory;
  friend bool operator==(const Slots&, const Slots&) = default;
};

// Of one model in VRAM; memory is all models'.
Slots SlotsOf(const DemoCore& demo, const std::string& model = "demo") {
  Slots all;
  const StatusSnapshot snapshot = demo.core->Snapshot();
  for (const SizeClassSnapshot& each : snapshot.pools.at(1).classes) {
    if (each.model != demo.core->FindModel(model)->id) continue;
    all.slots += each.slots;
    all.resident += each.resident;
  }
  all.memory = snapshot.pools.at(1).used;
  return all;
}

uint64_t Dropped(const DemoCore& demo) { return demo.core->Snapshot().pools.at(1).dropped_victims; }

bool ReaderIsIdle(const DemoCore& demo) {
  const ReaderSnapshot reader = demo.core->Snapshot().reader;
  return reader.queued == 0 && reader.in_flight == 0;
}

}  // namespace

TEST_CASE("Live VRAM budget: memory and slots shrink and grow, within what was asked for",
          "[scheduling]") {
  Demo demo(64_MiB, Percent{20});
  demo.HitRate(0, 60);
  const Slots before = SlotsOf(demo);
  REQUIRE(before.resident > 20);
  const Bytes tenth(demo.total().count() / 10);
  const Bytes in_force = demo.core->SetBudget(demo.vram(), tenth, {}).value();
  CHECK(in_force <= tenth);
  const Slots small = SlotsOf(demo);
  CHECK(small.memory == in_force);
  CHECK(small.slots < before.slots);
  CHECK(small.resident <= small.slots);
  REQUIRE(demo.core->SetBudget(demo.vram(), Bytes(UINT64_MAX), {}).has_value());
  CHECK(SlotsOf(demo).slots == 192);
  CHECK(SlotsOf(demo).memory == demo.total());
  demo.HitRate(0, 100);
  CHECK(Eventually([&] { return SlotsOf(demo).resident > before.slots; }));
}

TEST_CASE("Live VRAM budget: what leaves a smaller VRAM is in RAM, not on the drive alone",
          "[scheduling]") {
  const auto copy_time = GENERATE(std::chrono::milliseconds(0), std::chrono::milliseconds(1));
  Demo demo(64_MiB, Percent{20}, Percent{100}, {.copy_time = copy_time});
  REQUIRE(demo.HitRate(0, 200) < 100);
  REQUIRE(Eventually([&] { return ReaderIsIdle(demo); }));
  const uint64_t reads = demo.core->Snapshot().reader.reads;
  const uint64_t dropped = Dropped(demo);  // by calls, where copies to RAM are slower than these
  REQUIRE(demo.core->SetBudget(demo.vram(), Bytes(demo.total().count() / 12), {}).has_value());
  CHECK(Dropped(demo) == dropped);
  demo.HitRate(0, 200);
  // What these calls pick was read by the same calls before: it is read again only once dropped.
  CHECK(demo.core->Snapshot().reader.reads - reads <= Dropped(demo));
}

TEST_CASE("Live VRAM budget: what was lent for a while is restored by itself", "[scheduling]") {
  using std::chrono::seconds;
  Demo demo(64_MiB, Percent{20});
  const Slots before = SlotsOf(demo);
  const Bytes tenth(demo.total().count() / 10);
  const BudgetLoan loan = demo.core->LendBudget(demo.vram(), tenth, seconds(1)).value();
  CHECK(loan.original > loan.in_force);
  CHECK(SlotsOf(demo).slots < before.slots);
  const Bytes ram = demo.core->Snapshot().pools.at(0).used;
  CHECK(Eventually([&] { return SlotsOf(demo).slots == before.slots; }));
  CHECK(SlotsOf(demo).memory == before.memory);
  CHECK(demo.core->Snapshot().pools.at(0).used == ram);
}

TEST_CASE("Live VRAM budget: what cannot be is refused with the numbers, and nothing changes",
          "[scheduling]") {
  Demo demo(4_MiB, Percent{10});
  demo.HitRate(0, 40);
  const Slots before = SlotsOf(demo);
  const auto refused = [&](Bytes bytes) {
    const Result<Bytes> set = demo.core->SetBudget(demo.vram(), bytes, {});
    REQUIRE_FALSE(set.has_value());
    return set.error();
  };
  CHECK(refused(4_KiB).reason == Reason::kBudgetTooSmall);
  const Error no_room = refused(demo.total());
  CHECK(no_room.reason == Reason::kNoRoom);
  CHECK_THAT(no_room.message, Catch::Contains("do not fit in device card"));
  CHECK(SlotsOf(demo).slots == before.slots);
  CHECK(SlotsOf(demo).memory == before.memory);
}

TEST_CASE("Live VRAM budget: what one model gives up another may have", "[scheduling]") {
  Demo demo(7_MiB, Percent{12.5});
  REQUIRE(demo.core->Load(demo.WithVram("other", Percent{12.5}, Percent{20}), testing::AtOnce)
              .has_value());
  const ModelPool other{demo.core->FindModel("other")->id, kDevicePool};
  const Bytes quarter(demo.total().count() / 4);
  const Slots before = SlotsOf(demo, "other");
  CHECK(demo.core->SetBudget(other, quarter, {}).error().reason == Reason::kNoRoom);
  CHECK(SlotsOf(demo, "other") == before);
  REQUIRE(demo.core->SetBudget(demo.vram(), 500_KiB, {}).has_value());
  REQUIRE(demo.core->SetBudget(other, quarter, {}).has_value());
  CHECK(SlotsOf(demo, "other").slots > before.slots);
  const auto again = demo.core->SetBudget(demo.vram(), quarter, {});
  CHECK(again.error().reason == Reason::kNoRoom);
  REQUIRE(demo.core->UnloadModel("other").has_value());
  CHECK(demo.core->SetBudget(demo.vram(), quarter, {}).has_value());
}

TEST_CASE("Live VRAM budget: a model without slots there is told what gives it some",
          "[scheduling]") {
  Demo demo(4_KiB, Percent{100});
  const auto refused = demo.core->SetBudget(demo.vram(), 1_MiB, {});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kFailedPrecondition);
  CHECK_THAT(refused.error().message, Catch::Contains("vram:none"));
  CHECK_FALSE(demo.core->SetBudget({demo.id(), PoolId{7}}, 1_MiB, {}).has_value());
}

TEST_CASE("Live VRAM budget: a lost device's memory can be given back, and no more be had",
          "[scheduling]") {
  Demo demo(64_MiB, Percent{20}, Percent{100}, {.lost_after = 30});
  demo.HitRate(0, 60);
  const Bytes tenth(demo.total().count() / 10);
  const auto more = demo.core->SetBudget(demo.vram(), demo.total(), {});
  REQUIRE_FALSE(more.has_value());
  CHECK(more.error().code == ErrorCode::kUnavailable);
  CHECK(demo.core->SetBudget(demo.vram(), tenth, {}).has_value());
  CHECK(SlotsOf(demo).memory <= tenth);
}

TEST_CASE("Live VRAM budget: calls give the same bits while it changes under them",
          "[scheduling]") {
  Demo demo(64_MiB, Percent{30}, Percent{50});
  std::atomic<uint32_t> refused{0};
  const uint64_t total = demo.total().count();
  CHECK(demo.WrongAnswersUnder([&](uint64_t i) {
    const ModelPool of{demo.id(), i % 3 == 0 ? kRamPool : kDevicePool};
    const uint64_t least = of.pool == kRamPool ? 6 : 48;
    if (!demo.core->SetBudget(of, Bytes(total / (1 + i * 7 % least)), {}).has_value()) ++refused;
  }) == 0);
  CHECK(refused == 0);
  CHECK(demo.core->Snapshot().pools.at(1).copies_in > 0);
}

}  // namespace moetier
