#include "config/nearest.h"

#include <array>
#include <catch2/catch.hpp>
#include <string>

namespace moetier {

TEST_CASE("Nearest: one slip finds the word, another word finds nothing", "[config]") {
  constexpr std::array<std::string_view, 3> kWords = {"workers", "tune", "instruction_set"};
  CHECK(Nearest("worker", kWords) == "workers");
  CHECK(Nearest("wrokers", kWords) == "workers");
  CHECK(Nearest("tuen", kWords) == "tune");
  CHECK(Nearest("instruction-sets", kWords) == "instruction_set");
  CHECK(Nearest("threads", kWords).empty());
  CHECK(Nearest("", kWords).empty());
  CHECK(Nearest(std::string(100000, 'w'), kWords).empty());
}

}  // namespace moetier
