#include "tiers/device/slot_homes.h"

#include <catch2/catch.hpp>
#include <random>

#include "tiers/device/slot_granules.h"

namespace moetier {
namespace {

ArenaPlan Plan(const std::vector<ArenaRegion>& regions) {
  ArenaPlan plan;
  plan.regions = regions;
  plan.total = DeviceMemory(plan, 4_KiB);
  return plan;
}

std::vector<uint32_t> SlotsOf(const SlotHomes& shared, size_t size_class) {
  std::vector<uint32_t> slots;
  for (const ArenaPlan& plan : shared.plans) slots.push_back(plan.regions[size_class].slots);
  return slots;
}

// By class and device, the slots of any prefix are numbered without a gap, and the plans say how
// many have memory and how many places there are.
void CheckNumbers(const ArenaPlan& plan, const SlotHomes& shared) {
  for (size_t i = 0; i < plan.regions.size(); ++i) {
    REQUIRE(shared.homes[i].size() == std::max(plan.regions[i].slots, plan.regions[i].records));
    std::vector<uint32_t> counts(shared.plans.size());
    for (uint32_t slot = 0; slot < shared.homes[i].size(); ++slot) {
      if (slot == plan.regions[i].slots) CHECK(counts == SlotsOf(shared, i));
      const SlotHomes::Home& home = shared.homes[i][slot];
      REQUIRE(home.device < counts.size());
      CHECK(Raw(home.slot) == counts[home.device]++);
    }
    for (size_t k = 0; k < counts.size(); ++k) {
      const ArenaRegion& region = shared.plans[k].regions[i];
      CHECK(region.slot_bytes == plan.regions[i].slot_bytes);
      CHECK(std::max(region.slots, region.records) == counts[k]);
    }
  }
}

}  // namespace

TEST_CASE("ShareSlots: uneven devices have uneven shares of every run of slots", "[device]") {
  const ArenaPlan plan = Plan({{.slot_bytes = 64_KiB, .slots = 64, .offset = 0, .records = 96}});
  const std::vector<DeviceRoom> rooms = {{6_MiB, 4_KiB}, {2_MiB, 4_KiB}};
  const SlotHomes shared = ShareSlots(plan, rooms, "vram").value();
  CheckNumbers(plan, shared);
  CHECK(SlotsOf(shared, 0) == std::vector<uint32_t>{48, 16});
  // Half of the slots retire: both devices keep half of theirs.
  uint32_t first = 0;
  for (uint32_t slot = 0; slot < 32; ++slot) first += shared.homes[0][slot].device == 0 ? 1 : 0;
  CHECK(first == 24);
  CHECK(shared.plans[0].regions[0].records == 72);
}

TEST_CASE("ShareSlots: no device has more than fits it, whole granules counted", "[device]") {
  std::mt19937 random(5);
  const auto draw = [&](uint32_t least, uint32_t most) {
    return std::uniform_int_distribution<uint32_t>(least, most)(random);
  };
  uint32_t shared_out = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<ArenaRegion> regions;
    for (uint32_t i = draw(1, 3); i > 0; --i) {
      const uint32_t slots = draw(1, 20);
      regions.push_back({.slot_bytes = Bytes(uint64_t{4096} * draw(1, 40)),
                         .slots = slots,
                         .offset = 0,
                         .records = slots + draw(0, 9)});
    }
    const ArenaPlan plan = Plan(regions);
    std::vector<DeviceRoom> rooms;
    for (uint32_t i = draw(1, 4); i > 0; --i) {
      rooms.push_back({.free = Bytes(plan.total.count() * draw(0, 12) / 10),
                       .granule = draw(0, 1) == 0 ? 4_KiB : 64_KiB});
    }
    const Result<SlotHomes> shared = ShareSlots(plan, rooms, "vram");
    if (!shared) {
      CHECK(shared.error().reason == Reason::kNoRoom);
      continue;
    }
    ++shared_out;
    CheckNumbers(plan, *shared);
    for (size_t i = 0; i < rooms.size(); ++i) {
      const ArenaPlan& own = shared->plans[i];
      CHECK(own.total == DeviceMemory(own, rooms[i].granule));
      CHECK(own.total <= rooms[i].free);
    }
  }
  CHECK(shared_out > 200);
}

TEST_CASE("ShareSlots: a slot that fits no device's rest is refused, with its size", "[device]") {
  const ArenaPlan plan = Plan({{.slot_bytes = 64_KiB, .slots = 3, .offset = 0, .records = 3}});
  const std::vector<DeviceRoom> rooms = {{96_KiB, 4_KiB}, {96_KiB, 4_KiB}};
  const auto refused = ShareSlots(plan, rooms, "models[m].vram");
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::kExhausted);
  CHECK_THAT(refused.error().message,
             Catch::StartsWith("models[m].vram: ") && Catch::Contains("one more slot of 64.0 KiB"));
}

}  // namespace moetier
