#include "base/text_size.h"

#include <catch2/catch.hpp>

namespace moetier {

TEST_CASE("ParseSize: binary and decimal units, spaces and fractions are understood", "[base]") {
  CHECK(ParseSize("12GiB").value() == 12_GiB);
  CHECK(ParseSize("512 MiB").value() == 512_MiB);
  CHECK(ParseSize("4096").value() == 4096_B);
  CHECK(ParseSize("1.5GB").value() == Bytes(1500000000));
  CHECK(ParseSize("0").value() == 0_B);
}

TEST_CASE("ParseSize: anything else is refused with the units that are allowed", "[base]") {
  for (const char* text :
       {"", "GiB", "12 GIB", "-1MiB", "nan", "1e3", "12GiB x", "9e99", "9999999TiB"}) {
    const Result<Bytes> result = ParseSize(text);
    INFO(text);
    REQUIRE(!result.has_value());
    CHECK(result.error().code == ErrorCode::kInvalidArgument);
    CHECK(result.error().message.find("GiB") != std::string::npos);
  }
}

TEST_CASE("FormatSize: three digits and a binary unit", "[base]") {
  CHECK(FormatSize(0_B) == "0 B");
  CHECK(FormatSize(1023_B) == "1023 B");
  CHECK(FormatSize(1_KiB) == "1.00 KiB");
  CHECK(FormatSize(12_GiB) == "12.0 GiB");
}

}  // namespace moetier
