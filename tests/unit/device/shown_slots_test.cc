#include "tiers/device/shown_slots.h"

#include <catch2/catch.hpp>

#include "tests/support/watching_device.h"

namespace moetier {
namespace {

using testing::WatchingDevice;

// Four slots with memory of eight.
std::unique_ptr<Arena> MakeArena() {
  ArenaPlan plan;
  plan.regions.push_back({.slot_bytes = 8_KiB, .slots = 4, .offset = 0, .records = 8});
  plan.total = 32_KiB;
  return Arena::Create(plan, {}).value();
}

constexpr SizeClass kClass{0};

}  // namespace

TEST_CASE("ShownSlots: what has memory is shown, to the end and no longer", "[device]") {
  WatchingDevice device;
  const std::unique_ptr<Arena> arena = MakeArena();
  {
    const auto shown = ShownSlots::Create(device, *arena, {4}, {}).value();
    CHECK(device.shown.size() == 4);
    shown->GiveBack(kClass, SlotIndex{2});
    CHECK(device.shown.size() == 3);
    CHECK(!device.shown.contains(arena->Slot(kClass, SlotIndex{2}).data()));
    REQUIRE(shown->Take(kClass, SlotIndex{4}, 3).has_value());
    CHECK(device.shown.size() == 6);
    CHECK(device.shown.contains(arena->Slot(kClass, SlotIndex{6}).data()));
    CHECK(shown->Places(kClass) == 8);
  }
  CHECK(device.shown.empty());
}

TEST_CASE("ShownSlots: a refusal leaves nothing shown that was not, and no memory taken",
          "[device]") {
  WatchingDevice device;
  const std::unique_ptr<Arena> arena = MakeArena();
  device.may_show = 3;
  CHECK(!ShownSlots::Create(device, *arena, {4}, {}).has_value());
  CHECK(device.shown.empty());
  device.may_show = 5;
  const auto shown = ShownSlots::Create(device, *arena, {4}, {}).value();
  const Bytes size = arena->size();
  const Status refused = shown->Take(kClass, SlotIndex{4}, 3);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().message == "no more may be shown");
  CHECK(device.shown.size() == 4);
  CHECK(arena->size() == size);
}

}  // namespace moetier
