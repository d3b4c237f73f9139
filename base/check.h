#ifndef MOETIER_BASE_CHECK_H_
#define MOETIER_BASE_CHECK_H_

#include <fmt/core.h>

#include <string_view>

namespace moetier {

// Prints the failed condition with its place to stderr and aborts.
[[noreturn]] void CheckFailed(std::string_view file, int line, std::string_view condition,
                              std::string_view message);

}  // namespace moetier

// States an invariant of our own; stays on in release builds, since a broken ledger must stop, not
// serve wrong weights. Never for disk, network, config, peers or memory limits: those are Errors.
#define MOE_CHECK(condition, ...)                                                         \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::moetier::CheckFailed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)

#endif  // MOETIER_BASE_CHECK_H_
