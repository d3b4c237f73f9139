#include "kernels/cuda/shown_ranges.h"

#include <catch2/catch.hpp>

namespace moetier::kernels::cuda {

TEST_CASE("ShownRanges: a range is registered once, and given back by the last that has it",
          "[cuda]") {
  std::byte memory[2]{};
  int registered = 0;
  const auto shows = [&]() -> Status {
    ++registered;
    return Ok{};
  };
  const auto hides = [&] { --registered; };
  ShownRanges ranges;
  REQUIRE(ranges.Show(&memory[0], shows));
  REQUIRE(ranges.Show(&memory[0], shows));
  CHECK(registered == 1);
  REQUIRE(ranges.Show(&memory[1], shows));
  CHECK(registered == 2);
  ranges.Hide(&memory[0], hides);
  CHECK(registered == 2);
  ranges.Hide(&memory[0], hides);
  CHECK(registered == 1);
  ranges.Hide(&memory[0], hides);
  CHECK(registered == 1);
  REQUIRE(ranges.Show(&memory[0], shows));
  CHECK(registered == 2);
}

TEST_CASE("ShownRanges: what could not be registered is not shown", "[cuda]") {
  std::byte memory{};
  ShownRanges ranges;
  const Error refused{ErrorCode::kExhausted, Reason::kMemoryLimit, "no"};
  CHECK(!ranges.Show(&memory, [&]() -> Status { return refused; }));
  bool hidden = false;
  ranges.Hide(&memory, [&] { hidden = true; });
  CHECK(!hidden);
}

}  // namespace moetier::kernels::cuda
