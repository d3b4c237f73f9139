#include "tests/unit/cuda/layer_check.h"

#include <catch2/catch.hpp>

#include "kernels/expert_ffn.h"
#include "kernels/reference/reference_expert.h"

namespace moetier::kernels::cuda {

void CheckLayer(const Way& way, const std::vector<RandomExpert>& experts, const Rows& inputs,
                const std::vector<Pick>& picks) {
  const ExpertShape& shape = experts[0].shape;
  const LayerResult got = RunLayer(way, experts, inputs, picks);
  CAPTURE(way.seed, way.staged_blocks, Info(shape.gate).name, Info(shape.down).name, shape.hidden,
          shape.ffn, inputs.size());
  Rows sums(inputs.size(), std::vector<float>(shape.hidden, 0.0f));
  size_t different = 0;
  for (size_t p = 0; p < picks.size(); ++p) {
    std::vector<float> expected(shape.hidden);
    ReferenceExpert(shape, experts[picks[p].expert].source(), inputs[picks[p].row], expected);
    different += DifferentBits(got.y[p], expected);
    AddWeighted(sums[picks[p].row], picks[p].weight, expected);
  }
  CHECK(different == 0);
  for (size_t row = 0; row < inputs.size(); ++row) {
    CHECK(DifferentBits(got.out[row], sums[row]) == 0);
  }
}

void CheckExpert(const Way& way, const ExpertShape& shape, BlockKind kind, const Rows& inputs) {
  std::vector<Pick> picks;
  for (uint32_t row = 0; row < inputs.size(); ++row) picks.push_back({row, 0, 0.37f});
  CheckLayer(way, {RandomExpert(shape, kind, 17 + way.seed)}, inputs, picks);
}

ExpertShape ShapeOf(WeightType type, uint32_t hidden, uint32_t ffn) {
  return {.hidden = hidden, .ffn = ffn, .gate = type, .up = type, .down = type};
}

bool IsSuper(WeightType type) { return Info(type).block_weights == 256; }

}  // namespace moetier::kernels::cuda
