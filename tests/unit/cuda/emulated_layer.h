#ifndef MOETIER_TESTS_UNIT_CUDA_EMULATED_LAYER_H_
#define MOETIER_TESTS_UNIT_CUDA_EMULATED_LAYER_H_

#include <cstdint>
#include <vector>

#include "kernels/cuda/decode_kernels.h"
#include "kernels/cuda/simt/queues.h"
#include "tests/unit/kernels/random_expert.h"

// A layer's call on the emulated GPU, from hidden rows to their weighted sums.

namespace moetier::kernels::cuda {

using Rows = std::vector<std::vector<float>>;

// PreparedRows with memory of its own, filled with what no kernel may take for data.
class OwnedRows {
 public:
  OwnedRows(uint32_t rows, uint32_t columns);
  [[nodiscard]] PreparedRows view();

 private:
  uint32_t columns_;
  uint32_t blocks_;
  std::vector<float> values_;
  std::vector<int8_t> codes_;
  std::vector<float> scales_;
  std::vector<float> scaled_sums_;
  std::vector<int32_t> half_sums_;
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

// All experts have one shape. Fails the running test when a kernel fails.
LayerResult RunLayer(const simt::GridOptions& options, const std::vector<RandomExpert>& experts,
                     const Rows& inputs, const std::vector<Pick>& picks);

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_TESTS_UNIT_CUDA_EMULATED_LAYER_H_
