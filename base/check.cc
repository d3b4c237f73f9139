#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace moetier {

void CheckFailed(std::string_view file, int line, std::string_view condition,
                 std::string_view message) {
  fmt::print(stderr, "{}:{}: invariant broken: {} ({})\n", file, line, message, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace moetier
