#include "base/suspend_watch.h"

#include <catch2/catch.hpp>

namespace moetier {
namespace {

using std::chrono::seconds;

}  // namespace

TEST_CASE("SuspendWatch: what the host slept since it was made is seen, earlier sleep is not",
          "[base]") {
  HostTimes times{.awake_before = seconds(100), .all = seconds(500), .awake_after = seconds(100)};
  const SuspendWatch watch([&] { return times; });
  CHECK_FALSE(watch.WasSuspended());
  times = {.awake_before = seconds(190), .all = seconds(590), .awake_after = seconds(190)};
  CHECK_FALSE(watch.WasSuspended());
  times.all += SuspendWatch::kShortest;
  CHECK(watch.WasSuspended());
}

TEST_CASE("SuspendWatch: a thread that waits between its looks at clocks sees no suspension",
          "[base]") {
  // At first between the second and the third look, later between the first and the second.
  HostTimes times{.awake_before = seconds(1), .all = seconds(1), .awake_after = seconds(31)};
  const SuspendWatch late_after([&] { return times; });
  times = {.awake_before = seconds(40), .all = seconds(70), .awake_after = seconds(70)};
  CHECK_FALSE(late_after.WasSuspended());
  const SuspendWatch late_before([&] { return times; });
  times = {.awake_before = seconds(80), .all = seconds(80), .awake_after = seconds(95)};
  CHECK_FALSE(late_before.WasSuspended());
}

TEST_CASE("SuspendWatch: this host's clocks say that it is awake", "[base]") {
  const SuspendWatch watch;
  for (int i = 0; i < 1000; ++i) REQUIRE_FALSE(watch.WasSuspended());
  const HostTimes times = ReadHostTimes();
  CHECK(times.awake_before <= times.awake_after);
  CHECK(times.all >= times.awake_before);
}

}  // namespace moetier
