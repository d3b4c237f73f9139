#include "daemon/ctl/text_table.h"

#include <catch2/catch.hpp>

namespace moetier {

TEST_CASE("TextTable: columns are as wide as their widest cell, without trailing blanks", "[ctl]") {
  TextTable table({{"NAME"}, {"BYTES", Align::kRight}, {"STORE"}});
  CHECK(table.empty());
  table.AddRow({"a", "1", "x"});
  table.AddRow({"longer", "123456", ""});
  CHECK(table.Render() ==
        "NAME     BYTES  STORE\n"
        "a            1  x\n"
        "longer  123456\n");
}

TEST_CASE("TextTable: a cell's control characters do not reach the terminal", "[ctl]") {
  TextTable table({{"A"}});
  table.AddRow({"x\033[2J\ny"});
  CHECK(table.Render() == "A\nx?[2J?y\n");
}

}  // namespace moetier
