#include "daemon/ctl/interrupt.h"

#include <catch2/catch.hpp>
#include <csignal>

namespace moetier {

TEST_CASE("Interrupt: a signal that comes when the step is done does not end the program",
          "[ctl]") {
  {
    Result<Interrupt> interrupt = Interrupt::Create();
    REQUIRE(interrupt.has_value());
    CHECK(!interrupt->requested());
    raise(SIGTERM);
    raise(SIGINT);
  }
  SUCCEED("still here");
}

TEST_CASE("Interrupt: is requested from the first signal on", "[ctl]") {
  Result<Interrupt> interrupt = Interrupt::Create();
  REQUIRE(interrupt.has_value());
  raise(SIGTERM);
  CHECK(interrupt->requested());
  CHECK(interrupt->requested());
}

}  // namespace moetier
