#include "tiers/device/slot_granules.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "tests/support/random.h"

namespace moetier {
namespace {

using Run = SlotGranules::Run;

ArenaRegion RegionOf(Bytes slot_bytes, uint32_t slots) {
  return {.slot_bytes = slot_bytes, .slots = slots, .offset = 0, .records = slots};
}

}  // namespace

TEST_CASE("SlotGranules: a plan takes whole granules for each class that has slots", "[device]") {
  ArenaPlan plan;
  plan.regions = {RegionOf(12_KiB, 3), RegionOf(16_KiB, 4), RegionOf(4_KiB, 0)};
  CHECK(DeviceMemory(plan, 4_KiB) == 100_KiB);
  CHECK(DeviceMemory(plan, 64_KiB) == 128_KiB);
  CHECK(DeviceMemory(plan, 2_MiB) == 4_MiB);
}

TEST_CASE("SlotGranules: a granule goes with the last slot that has bytes in it", "[device]") {
  SlotGranules granules(12_KiB, 32_KiB, 6);  // 72 KiB: slots 2 and 5 lie in two granules
  CHECK(granules.count() == 3);
  CHECK(granules.Lacking(SlotIndex{0}, 6) == std::vector<Run>{{0, 3}});
  granules.Add(SlotIndex{0}, 6);
  CHECK(granules.mapped() == 3);
  CHECK(granules.Lacking(SlotIndex{0}, 6).empty());
  CHECK(granules.Remove(SlotIndex{3}).count == 0);
  CHECK(granules.Remove(SlotIndex{4}).count == 0);
  CHECK(granules.Remove(SlotIndex{2}).count == 0);  // slots 1 and 5 have bytes in its two
  CHECK(granules.Remove(SlotIndex{5}) == Run{1, 2});
  CHECK(granules.mapped() == 1);
}

TEST_CASE("SlotGranules: what lies between granules that are there is lacking alone", "[device]") {
  SlotGranules granules(4_KiB, 4_KiB, 8);
  granules.Add(SlotIndex{2}, 1);
  granules.Add(SlotIndex{5}, 2);
  CHECK(granules.Lacking(SlotIndex{0}, 8) == std::vector<Run>{{0, 2}, {3, 2}, {7, 1}});
}

TEST_CASE("SlotGranules: a large slot takes its inner granules with it", "[device]") {
  SlotGranules granules(40_KiB, 16_KiB, 3);
  granules.Add(SlotIndex{0}, 3);
  CHECK(granules.mapped() == 8);
  CHECK(granules.Remove(SlotIndex{1}) == Run{3, 2});  // the second granule is slot 0's too
  CHECK(granules.Remove(SlotIndex{2}) == Run{5, 3});
  CHECK(granules.Remove(SlotIndex{0}) == Run{0, 3});
  CHECK(granules.mapped() == 0);
}

TEST_CASE("SlotGranules: at any time what is mapped is what slots with memory touch", "[device]") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const uint64_t slot = 4096 * random.Between(1, 12);
    const uint64_t granule = uint64_t{4096} << random.Below(5);
    const uint32_t places = random.Between(1, 40);
    SlotGranules granules(Bytes(slot), Bytes(granule), places);
    std::set<uint32_t> in_use;
    std::set<uint64_t> mapped;
    const auto needed = [&] {
      std::set<uint64_t> all;
      for (const uint32_t each : in_use) {
        for (uint64_t at = each * slot / granule; at <= ((each + 1) * slot - 1) / granule; ++at) {
          all.insert(at);
        }
      }
      return all;
    };
    for (uint32_t step = 0; step < 100; ++step) {
      const uint32_t first = random.Below(places);
      if (in_use.contains(first)) {
        in_use.erase(first);
        const Run freed = granules.Remove(SlotIndex{first});
        for (uint64_t i = 0; i < freed.count; ++i) REQUIRE(mapped.erase(freed.first + i) == 1);
      } else {
        uint32_t count = 1;
        while (first + count < places && count < 4 && !in_use.contains(first + count)) ++count;
        for (const Run& run : granules.Lacking(SlotIndex{first}, count)) {
          for (uint64_t i = 0; i < run.count; ++i) REQUIRE(mapped.insert(run.first + i).second);
        }
        granules.Add(SlotIndex{first}, count);
        for (uint32_t i = 0; i < count; ++i) in_use.insert(first + i);
      }
      REQUIRE(mapped == needed());
      REQUIRE(granules.mapped() == mapped.size());
    }
  }
}

}  // namespace moetier
