#include "daemon/ctl/output_grid.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "daemon/ctl/replay_plan.h"

namespace moetier {
namespace {

constexpr uint32_t kTokens = 7;
constexpr uint32_t kLayers = 3;
constexpr uint32_t kColumns = 5;

std::vector<float> RowOf(uint32_t token, uint32_t layer) {
  std::vector<float> row(kColumns);
  for (uint32_t i = 0; i < kColumns; ++i) {
    row[i] = std::sin(static_cast<float>(100 * token + 10 * layer + i));
  }
  return row;
}

// Fills a grid by the calls of a plan, in an order of the seed's choice.
uint64_t HashBy(uint32_t rows_per_call, uint32_t sessions, uint32_t seed) {
  std::vector<ReplayCall> calls;
  for (const auto& session : PlanReplay({.tokens = kTokens,
                             .layers = kLayers,
                             .rows_per_call = rows_per_call,
                             .sessions = sessions})) {
    calls.insert(calls.end(), session.begin(), session.end());
  }
  std::shuffle(calls.begin(), calls.end(), std::mt19937(seed));
  OutputGrid grid(kTokens, kLayers, kColumns);
  for (const ReplayCall& call : calls) {
    for (uint32_t i = 0; i < call.rows; ++i) {
      grid.Put(call.first_token + i, call.layer, RowOf(call.first_token + i, call.layer));
    }
  }
  return grid.Hash();
}

}  // namespace

TEST_CASE("OutputGrid: the hash is the same for every batch size, session count and order",
          "[ctl]") {
  const uint64_t hash = HashBy(1, 1, 0);
  for (const uint32_t rows : {1u, 2u, 3u, 7u, 64u}) {
    for (const uint32_t sessions : {1u, 2u, 5u}) {
      for (uint32_t seed = 1; seed < 4; ++seed) CHECK(HashBy(rows, sessions, seed) == hash);
    }
  }
}

TEST_CASE("OutputGrid: one changed bit, or two swapped rows, change the hash", "[ctl]") {
  OutputGrid grid(2, 1, 2);
  grid.Put(0, 0, std::vector<float>{1, 2});
  grid.Put(1, 0, std::vector<float>{3, 4});
  const uint64_t hash = grid.Hash();
  grid.Put(1, 0, std::vector<float>{3, std::nextafter(4.0f, 5.0f)});
  CHECK(grid.Hash() != hash);
  grid.Put(0, 0, std::vector<float>{3, 4});
  grid.Put(1, 0, std::vector<float>{1, 2});
  CHECK(grid.Hash() != hash);
}

TEST_CASE("RelativeL2: the error's norm over the expected norm", "[ctl]") {
  const std::vector<float> expected = {3, 4};
  CHECK(RelativeL2(expected, expected) == 0);
  CHECK(RelativeL2(std::vector<float>{3, 4.5f}, expected) == Approx(0.1));
  const std::vector<float> zero = {0, 0};
  CHECK(RelativeL2(zero, zero) == 0);
  CHECK(std::isinf(RelativeL2(expected, zero)));
}

TEST_CASE("PlanReplay: every token and layer is in exactly one call", "[ctl]") {
  for (const uint32_t rows : {1u, 3u, 7u, 64u}) {
    for (const uint32_t sessions : {1u, 2u, 9u}) {
      std::vector<int> seen(kTokens * kLayers);
      const auto plan = PlanReplay(
          {.tokens = kTokens, .layers = kLayers, .rows_per_call = rows, .sessions = sessions});
      REQUIRE(plan.size() == sessions);
      for (const auto& session : plan) {
        for (const ReplayCall& call : session) {
          CHECK(call.rows >= 1);
          CHECK(call.rows <= rows);
          for (uint32_t i = 0; i < call.rows; ++i) {
            ++seen[(call.first_token + i) * kLayers + call.layer];
          }
        }
      }
      CHECK(std::ranges::all_of(seen, [](int count) { return count == 1; }));
    }
  }
}

TEST_CASE("PlanReplay: a session sends its tokens layer by layer", "[ctl]") {
  const auto plan = PlanReplay({.tokens = 3, .layers = 2, .rows_per_call = 2, .sessions = 2});
  CHECK(plan[0] == std::vector<ReplayCall>{{0, 0, 2}, {1, 0, 2}});
  CHECK(plan[1] == std::vector<ReplayCall>{{0, 2, 1}, {1, 2, 1}});
}

}  // namespace moetier
