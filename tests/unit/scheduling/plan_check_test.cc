#include "daemon/scheduling/plan_check.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>

#include "tests/support/random.h"

namespace moetier {
namespace {

// A box whose blocks take `planned` or `simplest` microseconds, each call with noise of its own.
class Box {
 public:
  Box(uint64_t seed, uint32_t calls_a_block) : random_(seed), calls_a_block_(calls_a_block) {}

  uint32_t planned_us = 1000;
  uint32_t simplest_us = 1000;
  uint32_t noise_percent = 0;       // each call takes up to this much more
  uint32_t disturbed_permille = 0;  // calls that take twenty times as long

  void Run(PlanCheck& check, uint32_t blocks) {
    for (uint32_t i = 0; i < blocks * calls_a_block_; ++i) {
      const PlanArm arm = check.arm();
      const uint32_t us = arm == PlanArm::kPlanned ? planned_us : simplest_us;
      uint64_t ns = uint64_t{us} * 1000 / calls_a_block_;
      ns += ns * random_.Below(uint64_t{noise_percent} * 100 + 1) / 10000;
      if (random_.Below(1000) < disturbed_permille) ns *= 20;
      changes += check.Step(std::chrono::nanoseconds(ns)) ? 1 : 0;
      (arm == PlanArm::kPlanned ? planned_calls : simplest_calls) += 1;
    }
  }

  uint64_t planned_calls = 0;
  uint64_t simplest_calls = 0;
  uint64_t changes = 0;

 private:
  Random random_;
  const uint32_t calls_a_block_;
};

TEST_CASE("PlanCheck: it starts with the planner and no verdict", "[scheduling]") {
  const PlanCheck check(PlanCheck::Options{});
  CHECK(check.arm() == PlanArm::kPlanned);
  CHECK(check.choice() == PlanArm::kPlanned);
  CHECK_FALSE(check.median_ratio().has_value());
}

TEST_CASE("PlanCheck: a trial runs both arms for a block each, in turns first", "[scheduling]") {
  PlanCheck check({.calls_a_block = 2, .shortest_pause = 1});
  const std::chrono::microseconds call(10);
  const auto block = [&] {
    const PlanArm arm = check.arm();
    check.Step(call);
    CHECK(check.arm() == arm);  // within a block the arm stays
    check.Step(call);
    return arm;
  };
  CHECK(block() == PlanArm::kPlanned);  // a pause
  CHECK(block() == PlanArm::kPlanned);
  CHECK(block() == PlanArm::kSimplest);
  CHECK(check.trials() == 1);
  CHECK(block() == PlanArm::kPlanned);  // a pause
  CHECK(block() == PlanArm::kSimplest);
  CHECK(block() == PlanArm::kPlanned);
  CHECK(check.trials() == 2);
}

TEST_CASE("PlanCheck: a planner that loses by a tenth is reverted, and stays so", "[scheduling]") {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    PlanCheck check({.calls_a_block = 48});
    Box box(seed, 48);
    box.planned_us = 1100;
    box.noise_percent = 40;
    box.disturbed_permille = 1;
    box.Run(check, 2000);
    CHECK(check.choice() == PlanArm::kSimplest);
    CHECK(check.reversions() == 1);
    CHECK(check.restorations() == 0);
    CHECK(box.changes == 1);
    CHECK(*check.median_ratio() > 1.03);
  }
}

TEST_CASE("PlanCheck: without noise the verdict falls after fifteen trials", "[scheduling]") {
  PlanCheck check({.calls_a_block = 4});
  Box box(1, 4);
  box.planned_us = 1050;
  box.Run(check, 15 * 10 - 1);
  CHECK(check.choice() == PlanArm::kPlanned);
  box.Run(check, 1);
  CHECK(check.choice() == PlanArm::kSimplest);
  CHECK(check.arm() == PlanArm::kSimplest);
  CHECK_FALSE(check.median_ratio().has_value());  // the next change needs evidence of its own
}

TEST_CASE("PlanCheck: a planner that wins is kept, and trials cost next to nothing",
          "[scheduling]") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    PlanCheck check({.calls_a_block = 8});
    Box box(seed, 8);
    box.planned_us = 500;
    box.noise_percent = 30;
    box.disturbed_permille = 1;
    box.Run(check, 50000);
    CHECK(check.reversions() == 0);
    CHECK(check.trials() > 50);
    CHECK(box.simplest_calls * 100 < box.planned_calls);
  }
}

TEST_CASE("PlanCheck: arms within the margin do not change places", "[scheduling]") {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    PlanCheck check({.calls_a_block = 48});
    Box box(seed, 48);
    box.planned_us = seed % 2 == 0 ? 1010 : 990;
    box.noise_percent = 30;
    box.Run(check, 20000);
    CHECK(check.reversions() == 0);
  }
}

TEST_CASE("PlanCheck: a reverted planner comes back when it wins, and only then", "[scheduling]") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    PlanCheck check({.calls_a_block = 16});
    Box box(seed, 16);
    box.noise_percent = 20;
    box.planned_us = 1300;
    box.Run(check, 1000);
    REQUIRE(check.choice() == PlanArm::kSimplest);
    box.planned_us = 1000;  // equal now: no reason to change
    box.Run(check, 5000);
    REQUIRE(check.choice() == PlanArm::kSimplest);
    box.planned_us = 800;
    box.Run(check, 12000);
    CHECK(check.choice() == PlanArm::kPlanned);
    CHECK(check.restorations() == 1);
  }
}

TEST_CASE("PlanCheck: a planner that begins to lose is found out while trials are rare",
          "[scheduling]") {
  PlanCheck check({.calls_a_block = 16});
  Box box(7, 16);
  box.noise_percent = 20;
  box.planned_us = 700;
  box.Run(check, 20000);
  REQUIRE(check.choice() == PlanArm::kPlanned);
  box.planned_us = 1500;
  box.Run(check, 1024 + 2 + 15 * 10);  // the longest pause, then trials come often again
  CHECK(check.choice() == PlanArm::kSimplest);
}

TEST_CASE("PlanCheck: calls that take no time are no evidence", "[scheduling]") {
  PlanCheck check(PlanCheck::Options{});
  for (uint32_t i = 0; i < 10000; ++i) CHECK_FALSE(check.Step(std::chrono::nanoseconds(0)));
  CHECK(check.trials() > 100);
  CHECK_FALSE(check.median_ratio().has_value());
}

}  // namespace
}  // namespace moetier
