#include "tiers/decayed_counts.h"

#include <catch2/catch.hpp>

namespace moetier {
namespace {

constexpr KeyIndex kA{0};
constexpr KeyIndex kB{1};

TEST_CASE("DecayedCounts: a count halves every half life", "[tiers]") {
  DecayedCounts counts(2, 10);
  counts.Add(kA, 3);
  CHECK_FALSE(counts.Advance(10));
  CHECK(counts.Count(kA) == Approx(1.5));
  counts.Add(kA, 1);
  CHECK_FALSE(counts.Advance(20));
  CHECK(counts.Count(kA) == Approx(1.25));
  CHECK(counts.Count(kB) == 0);
}

TEST_CASE("DecayedCounts: with a half life of 0 nothing is forgotten", "[tiers]") {
  DecayedCounts counts(1, 0);
  counts.Add(kA, 1);
  CHECK_FALSE(counts.Advance(UINT64_MAX));
  CHECK(counts.Count(kA) == 1);
}

TEST_CASE("DecayedCounts: they stay exact over any number of half lives", "[tiers]") {
  DecayedCounts counts(2, 1);
  bool scaled = false;
  for (uint64_t step = 0; step < 5000; ++step) {
    scaled = counts.Advance(step) || scaled;
    counts.Add(kA, 1);
    if (step % 2 == 0) counts.Add(kB, 1);
    REQUIRE((step == 0 || counts.Count(kA) > counts.Count(kB)));
  }
  CHECK(scaled);
  CHECK(counts.Count(kA) == Approx(2));  // 1 + 1/2 + 1/4 + ...
  CHECK(counts.Count(kB) == Approx(2.0 / 3));
}

TEST_CASE("DecayedCounts: after an endless pause all is forgotten and counting goes on",
          "[tiers]") {
  DecayedCounts counts(1, 1);
  counts.Add(kA, 1);
  CHECK(counts.Advance(UINT64_MAX - 1));
  CHECK(counts.Count(kA) == 0);
  counts.Add(kA, 1);
  CHECK_FALSE(counts.Advance(UINT64_MAX));
  CHECK(counts.Count(kA) == Approx(0.5));
}

}  // namespace
}  // namespace moetier
