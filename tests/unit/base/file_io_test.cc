#include "base/file_io.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>

#include "base/unique_fd.h"

namespace moetier {
namespace {

UniqueFd FileOf(std::string_view text) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC));
  REQUIRE(fd);
  REQUIRE(write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  return fd;
}

}  // namespace

TEST_CASE("ReadExactly: the file's end is a short read that names where it ends", "[base]") {
  const UniqueFd fd = FileOf("0123456789");
  std::array<std::byte, 4> four;
  REQUIRE(ReadExactly(fd.get(), 6, four, "digits").has_value());
  CHECK(four[0] == std::byte{'6'});
  const Status beyond = ReadExactly(fd.get(), 8, four, "digits");
  REQUIRE(!beyond.has_value());
  CHECK(beyond.error().reason == Reason::kShortRead);
  CHECK(beyond.error().message == "digits ends at byte 10, 4 bytes at 8 were expected");
}

TEST_CASE("ReadTextFile: stops above its limit", "[base]") {
  const UniqueFd fd = FileOf("0123456789");
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  CHECK(ReadTextFile(path, 10_B).value() == "0123456789");
  CHECK(ReadTextFile(path, 9_B).error().reason == Reason::kTooLarge);
}

}  // namespace moetier
