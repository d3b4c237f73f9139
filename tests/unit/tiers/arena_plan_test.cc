#include "tiers/arena_plan.h"

#include <catch2/catch.hpp>
#include <vector>

namespace moetier {
namespace {

using Classes = std::vector<SizeClassGeometry>;

}  // namespace

TEST_CASE("PlanArena: classes get the same share of their records", "[tiers]") {
  const auto plan = PlanArena(Classes{{1_MiB, 100}, {2_MiB, 100}}, 150_MiB, 8).value();
  CHECK(plan.regions[0].slots == 50);
  CHECK(plan.regions[1].slots == 50);
  CHECK(plan.total == 150_MiB);
  CHECK(plan.rounding_loss == 0_B);
  CHECK(plan.regions[0].offset == 0);
  CHECK(plan.regions[1].offset == (50_MiB).count());
}

TEST_CASE("PlanArena: a small class keeps the slots that one call needs", "[tiers]") {
  const auto plan = PlanArena(Classes{{1_MiB, 10000}, {1_MiB, 20}}, 100_MiB, 8).value();
  CHECK(plan.regions[0].slots == 92);
  CHECK(plan.regions[1].slots == 8);
}

TEST_CASE("PlanArena: no class gets more slots than it has records", "[tiers]") {
  const auto plan = PlanArena(Classes{{1_MiB, 4}, {1_MiB, 6}, {1_MiB, 0}}, 1_GiB, 8).value();
  CHECK(plan.regions[0].slots == 4);
  CHECK(plan.regions[1].slots == 6);
  CHECK(plan.regions[2].slots == 0);
  CHECK(plan.total == 10_MiB);
  CHECK(plan.rounding_loss == 0_B);  // the rest is not wanted
  CHECK(!plan.warning);
}

TEST_CASE("field_16: twenty thousand small experts take their bytes and no more", "[tiers]") {
  const auto plan = PlanArena(Classes{{300_KiB, 12000}, {364_KiB, 8000}}, 10_GiB, 8).value();
  CHECK(plan.total == Bytes(12000 * (300_KiB).count() + 8000 * (364_KiB).count()));
  CHECK(plan.regions[0].slots + plan.regions[1].slots == 20000);
}

TEST_CASE("PlanArena: a budget below one call's slots is refused with the bytes it takes",
          "[tiers]") {
  const Classes classes{{1_MiB, 100}, {Bytes(4096 * 300), 3}};
  const auto plan = PlanArena(classes, 11_MiB, 8);
  REQUIRE(!plan.has_value());
  CHECK(plan.error().code == ErrorCode::kExhausted);
  CHECK(plan.error().reason == Reason::kBudgetTooSmall);
  CHECK(plan.error().message ==
        "a budget of 11.0 MiB is too small: 8 slots of 1.00 MiB, 3 slots of 1.17 MiB, at least "
        "11.5 MiB (12075008 bytes) are needed: raise the budget");
  CHECK(PlanArena(classes, Bytes(12075008), 8).has_value());
  CHECK(!PlanArena(classes, Bytes(12075007), 8).has_value());
}

TEST_CASE("PlanArena: a loss above a tenth is a warning, below it is a number", "[tiers]") {
  const auto wasteful = PlanArena(Classes{{100_MiB, 10}}, 190_MiB, 1).value();
  CHECK(wasteful.rounding_loss == 90_MiB);
  REQUIRE(wasteful.warning);
  CHECK(*wasteful.warning ==
        "90.0 MiB of the budget of 190.0 MiB (47 %) is less than one more slot and stays unused: "
        "lower the budget to 100.0 MiB or raise it by a slot");
  const auto fair = PlanArena(Classes{{100_MiB, 20}}, 1050_MiB, 1).value();
  CHECK(fair.rounding_loss == 50_MiB);
  CHECK(!fair.warning);
}

TEST_CASE("PlanArena: sums that overflow are refused", "[tiers]") {
  const Bytes vast(uint64_t{1} << 50);
  CHECK(PlanArena(Classes{{vast, UINT32_MAX}, {vast, UINT32_MAX}}, Bytes(UINT64_MAX), UINT32_MAX)
            .error()
            .reason == Reason::kBudgetTooSmall);
}

TEST_CASE("PlanArena: slots that direct I/O could not use are refused", "[tiers]") {
  CHECK(PlanArena(Classes{{Bytes(5000), 3}}, 1_GiB, 1).error().code == ErrorCode::kInvalidArgument);
  CHECK(PlanArena(Classes{{0_B, 3}}, 1_GiB, 1).error().code == ErrorCode::kInvalidArgument);
  CHECK(PlanArena(Classes(5, {4_KiB, 1}), 1_GiB, 1).error().code == ErrorCode::kInvalidArgument);
  CHECK(PlanArena(Classes{}, 0_B, 8).value().total == 0_B);
}

TEST_CASE("PlanArena: the plan never exceeds the budget and leaves less than the largest slot",
          "[tiers]") {
  const Classes classes{{Bytes(4096 * 7), 50}, {Bytes(4096 * 11), 70}, {Bytes(4096 * 3), 30}};
  for (uint64_t pages = 42; pages < 1300; pages += 13) {
    const auto plan = PlanArena(classes, Bytes(pages * 4096), 2).value();
    REQUIRE(plan.total <= plan.budget);
    bool all_fit = true;
    for (size_t i = 0; i < classes.size(); ++i) {
      REQUIRE(plan.regions[i].slots >= 2);
      REQUIRE(plan.regions[i].slots <= classes[i].records);
      all_fit &= plan.regions[i].slots == classes[i].records;
    }
    if (!all_fit) REQUIRE(plan.budget - plan.total < Bytes(4096 * 11));
  }
}

TEST_CASE("PlanArena: a larger budget gives no class fewer slots", "[tiers]") {
  const Classes classes{{Bytes(4096 * 7), 50}, {Bytes(4096 * 11), 70}, {Bytes(4096 * 3), 30}};
  for (const Bytes granule : {4_KiB, 16_KiB, 64_KiB}) {
    std::vector<uint32_t> before(classes.size());
    for (uint64_t pages = 96; pages < 1400; ++pages) {
      const auto plan = PlanArena(classes, Bytes(pages * 4096), 2, granule).value();
      REQUIRE(plan.total <= plan.budget);
      for (size_t i = 0; i < classes.size(); ++i) {
        INFO("class " << i << " at " << pages << " pages");
        REQUIRE(plan.regions[i].slots >= before[i]);
        before[i] = plan.regions[i].slots;
      }
    }
    for (size_t i = 0; i < classes.size(); ++i) CHECK(before[i] == classes[i].records);
  }
}

TEST_CASE("PlanArena: each class takes whole granules, and begins at one", "[tiers]") {
  const Classes classes{{12_KiB, 100}, {20_KiB, 100}};
  const auto plan = PlanArena(classes, 1_MiB, 1, 64_KiB).value();
  CHECK(plan.least == 128_KiB);
  CHECK(plan.regions[0].slots == 32);  // 384 KiB
  CHECK(plan.regions[1].slots == 32);  // 640 KiB
  CHECK(plan.regions[1].offset == (384_KiB).count());
  CHECK(plan.total == 1_MiB);
  CHECK(PlanArena(classes, 127_KiB, 1, 64_KiB).error().reason == Reason::kBudgetTooSmall);
}

}  // namespace moetier
