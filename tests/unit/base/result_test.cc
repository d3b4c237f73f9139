#include "base/result.h"

#include <catch2/catch.hpp>
#include <memory>

#include "base/unique_fd.h"

namespace moetier {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return Error{ErrorCode::kInvalidArgument, Reason::kBadShape, "odd"};
  return n / 2;
}

Result<int> Quarter(int n) {
  ASSIGN_OR_RETURN(const int half, Half(n));
  ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

}  // namespace

TEST_CASE("ASSIGN_OR_RETURN: the first error reaches the caller unchanged", "[base]") {
  CHECK(Quarter(8).value() == 2);
  CHECK(Quarter(6).error().reason == Reason::kBadShape);
  CHECK(Quarter(6).error().message == "odd");
}

TEST_CASE("Result: holds move-only values", "[base]") {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  REQUIRE(result.has_value());
  std::unique_ptr<int> taken = std::move(result).value();
  CHECK(*taken == 7);
}

TEST_CASE("UniqueFd::Open: names the path and tells missing from forbidden", "[base]") {
  const Result<UniqueFd> missing = UniqueFd::Open("/nonexistent/file", O_RDONLY);
  REQUIRE(!missing.has_value());
  CHECK(missing.error().code == ErrorCode::kNotFound);
  CHECK(missing.error().message.find("/nonexistent/file") != std::string::npos);
  CHECK(ErrnoError(ENOSPC, "write x").reason == Reason::kOutOfSpace);
}

}  // namespace moetier
