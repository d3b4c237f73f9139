#ifndef MOETIER_TESTS_UNIT_CUDA_LAYER_CALL_H_
#define MOETIER_TESTS_UNIT_CUDA_LAYER_CALL_H_

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "kernels/cuda/expert_kernels.h"
#include "tests/unit/cuda/kernel_device.h"
#include "tests/unit/kernels/random_expert.h"

// A layer's call on a device, from hidden rows to their weighted sums. An error of the device fails
// the running test.

namespace moetier::kernels::cuda {

// How a test runs its kernels.
struct Way {
  uint64_t seed = 0;
  uint32_t staged_blocks = kDirectReads;
  KernelDevice::Memory records = KernelDevice::Memory::kDevice;
};

// Row `row` picks expert `expert` with this weight; a row's picks stand in its request's order.
struct Pick {
  uint32_t row;
  uint32_t expert;
  float weight;
};

struct LayerResult {
  Rows y;    // of each pick, in the order of `picks`
  Rows out;  // of each row
};

// All experts have one shape.
LayerResult RunLayer(const Way& way, const std::vector<RandomExpert>& experts, const Rows& inputs,
                     const std::vector<Pick>& picks);

std::vector<float> Flat(const Rows& rows);

// The value, or a failed test.
template <class T>
T Must(Result<T> result) {
  if (!result.has_value()) FAIL(result.error().message);
  return std::move(result).value();
}
inline void Must(const Status& status) {
  if (!status.has_value()) FAIL(status.error().message);
}

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_TESTS_UNIT_CUDA_LAYER_CALL_H_
