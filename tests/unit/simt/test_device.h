#ifndef MOETIER_TESTS_UNIT_SIMT_TEST_DEVICE_H_
#define MOETIER_TESTS_UNIT_SIMT_TEST_DEVICE_H_

#include <string>

#include "kernels/cuda/simt/simt.h"

namespace moetier::simt {

// The message of a failed launch, or "" for a good one.
template <class... Parameters, class... Arguments>
std::string RunKernel(uint64_t seed, const LaunchShape& shape, void (*kernel)(Parameters...),
                      const Arguments&... arguments) {
  Device device({.seed = seed, .switch_limit = 1 << 16});
  Stream& stream = device.NewStream();
  const int refused = Launch(shape, &stream, kernel, arguments...);
  if (refused != 0) return "refused with code " + std::to_string(refused);
  const Status ran = device.Synchronise();
  return ran.has_value() ? "" : ran.error().message;
}

}  // namespace moetier::simt

#endif  // MOETIER_TESTS_UNIT_SIMT_TEST_DEVICE_H_
