#ifndef MOETIER_TESTS_SIM_SIM_TRACE_H_
#define MOETIER_TESTS_SIM_SIM_TRACE_H_

#include <fmt/core.h>

#include <cstdio>
#include <utility>

namespace moetier {

// The steps of a seed, printed as they happen when it is replayed; else nothing.
class SimTrace {
 public:
  enum class Mode : uint8_t { kQuiet, kPrint };
  explicit SimTrace(Mode mode) : mode_(mode) {}

  template <typename... T>
  void Say(fmt::format_string<T...> text, T&&... values) {
    if (mode_ == Mode::kPrint)
      fmt::print(stderr, "  {}\n", fmt::format(text, std::forward<T>(values)...));
  }

 private:
  const Mode mode_;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_SIM_TRACE_H_
