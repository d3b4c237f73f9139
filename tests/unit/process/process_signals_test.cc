#include "daemon/process_signals.h"

#include <catch2/catch.hpp>

namespace moetier {

TEST_CASE("ProcessSignals: a long step is told of a signal to stop, and Wait sees it as well",
          "[process]") {
  ProcessSignals signals;
  CHECK(!signals.StopRequested());
  raise(SIGHUP);
  CHECK(!signals.StopRequested());
  CHECK(signals.Wait(std::chrono::microseconds(0)) == ProcessSignal::kReload);
  raise(SIGTERM);
  CHECK(signals.StopRequested());
  CHECK(signals.StopRequested());
  CHECK(signals.Wait(std::nullopt) == ProcessSignal::kStop);
}

}  // namespace moetier
