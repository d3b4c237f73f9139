#include "daemon/scheduling/session_turns.h"

#include <array>
#include <catch2/catch.hpp>

namespace moetier {
namespace {

using std::chrono::microseconds;

constexpr SessionId kGreedy{1};
constexpr SessionId kModest{2};

// Serves whoever is due first; the greedy session always wants more.
SessionId ServeFirst(SessionTurns& turns, microseconds greedy_cost, microseconds modest_cost) {
  const SessionId first = turns.Due(kModest) <= turns.Due(kGreedy) ? kModest : kGreedy;
  turns.Serve(turns.Due(first));
  turns.Charge(first, first == kGreedy ? greedy_cost : modest_cost);
  return first;
}

TEST_CASE("SessionTurns: two that always want something get the same time", "[scheduling]") {
  SessionTurns turns;
  std::array<microseconds, 2> given{};
  for (int i = 0; i < 1000; ++i) {
    const bool greedy = ServeFirst(turns, microseconds(900), microseconds(100)) == kGreedy;
    given[greedy ? 0 : 1] += greedy ? microseconds(900) : microseconds(100);
  }
  CHECK(given[0] - given[1] <= microseconds(900));
  CHECK(given[1] - given[0] <= microseconds(900));
}

TEST_CASE("SessionTurns: who comes back is due now, and has saved nothing up", "[scheduling]") {
  SessionTurns turns;
  turns.Charge(kModest, microseconds(10));
  for (int i = 0; i < 100; ++i) {
    turns.Serve(turns.Due(kGreedy));
    turns.Charge(kGreedy, microseconds(1000));
  }
  CHECK(turns.Due(kModest) < turns.Due(kGreedy));  // next
  turns.Serve(turns.Due(kModest));
  turns.Charge(kModest, microseconds(2000));
  CHECK(turns.Due(kGreedy) < turns.Due(kModest));  // then not again: it had no hundred turns left
}

TEST_CASE("SessionTurns: forgetting sessions that are due now changes nothing", "[scheduling]") {
  SessionTurns turns;
  turns.Charge(kGreedy, microseconds(500'000));
  for (uint64_t i = 10; i < 1000; ++i) {
    turns.Serve(turns.Due(SessionId{i}));
    turns.Charge(SessionId{i}, microseconds(1));
  }
  CHECK(turns.Due(kGreedy) == microseconds(500'000));
}

}  // namespace
}  // namespace moetier
