#ifndef MOETIER_TESTS_SUPPORT_EVENTUALLY_H_
#define MOETIER_TESTS_SUPPORT_EVENTUALLY_H_

#include <chrono>
#include <functional>
#include <thread>

namespace moetier::testing {

// Looks every ten milliseconds, for ten seconds at most, whether what nobody tells of has come.
inline bool Eventually(const std::function<bool()>& reached) {
  for (int i = 0; i < 1000; ++i) {
    if (reached()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_SUPPORT_EVENTUALLY_H_
