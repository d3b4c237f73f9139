#ifndef MOETIER_TESTS_SUPPORT_FAKE_FASTLANE_H_
#define MOETIER_TESTS_SUPPORT_FAKE_FASTLANE_H_

#include <moetier/fastlane.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace moetier::testing {

// What a program sees that links this double in place of the fast lane's client: the whole C API,
// with a daemon that is this object. Threads: one.
struct FakeFastlane {
  // Answers to come; each is taken once, then MOETIER_OK again.
  std::vector<moetier_status> attach_answers;
  std::vector<moetier_status> compute_answers;
  std::string text = "as the test says";  // of every error
  uint32_t max_rows = 2048;
  uint32_t activation = MOETIER_ACTIVATION_UNKNOWN;

  // Computes one piece; its rows are at most max_rows.
  std::function<void(const moetier_layer_call& call)> compute;

  // Seen so far.
  int attached = 0;
  int closed = 0;
  std::string client;
  std::string model;
  uint32_t files = 0;
  std::vector<moetier_layer_call> calls;

  // The daemon of this process.
  static FakeFastlane& Get();
};

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_SUPPORT_FAKE_FASTLANE_H_
