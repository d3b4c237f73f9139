#include "base/bytes.h"

#include <catch2/catch.hpp>
#include <limits>

namespace moetier {

TEST_CASE("Bytes: a sum or multiple too large for 64 bits is the largest number", "[base]") {
  constexpr Bytes kMost(std::numeric_limits<uint64_t>::max());
  CHECK(kMost + 1_B == kMost);
  CHECK(kMost + kMost == kMost);
  CHECK(kMost * 2 == kMost);
  CHECK(1_GiB * (uint64_t{1} << 40) == kMost);
  CHECK(kMost * 0 == 0_B);
  CHECK(1_GiB * 3 + 1_B == Bytes(3221225473));
}

}  // namespace moetier
