#include "base/memory_budget.h"

#include <catch2/catch.hpp>
#include <limits>

namespace moetier {

TEST_CASE("ParseMemoryBudget: a size or a share, never nothing", "[base]") {
  CHECK(ParseMemoryBudget("12GiB") == MemoryBudget(12_GiB));
  CHECK(ParseMemoryBudget("25%") == MemoryBudget(Percent{25}));
  CHECK(ParseMemoryBudget("100%") == MemoryBudget(Percent{100}));
  for (const char* text : {"", "0", "0GiB", "0%", "100.1%", "%", "-5%", "nan%", "5 %", "x"}) {
    INFO(text);
    CHECK(!ParseMemoryBudget(text));
  }
}

TEST_CASE("ResolveBudget: more than the model has is all of it", "[base]") {
  CHECK(ResolveBudget(Bytes(std::numeric_limits<uint64_t>::max()), 3_MiB) == 3_MiB);
  CHECK(ResolveBudget(1_MiB, 3_MiB) == 1_MiB);
  CHECK(ResolveBudget(Percent{100}, 3_MiB) == 3_MiB);
  CHECK(ResolveBudget(Percent{50}, Bytes(3)) == Bytes(2));
}

}  // namespace moetier
