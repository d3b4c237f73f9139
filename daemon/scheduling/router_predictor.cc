#include "daemon/scheduling/router_predictor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/reference/reference_expert.h"
#include "kernels/weight_type.h"

namespace moetier {
namespace {

// Sixteen sums side by side, which the compiler turns into vectors of any width. A matrix is read
// from memory once a row: four-wide vectors keep up with it.
float Dot(const float* a, const float* b, size_t size) {
  std::array<float, 16> sums{};
  size_t i = 0;
  for (; i + sums.size() <= size; i += sums.size()) {
    for (size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  float sum = 0;
  for (; i < size; ++i) sum += a[i] * b[i];
  return std::accumulate(sums.begin(), sums.end(), sum);
}

std::string_view NameOf(size_t role) {
  constexpr std::array<std::string_view, kRouterRoles> names = {
      "ffn_gate_inp.weight", "exp_probs_b.bias", "ffn_gate_inp.bias"};
  return names[role];
}

// The tensor as f32, if it is `rows` x `columns` of a type that can be read.
Result<std::vector<float>> ReadMatrix(const LayerRouter& router, size_t role, uint32_t rows,
                                      uint32_t columns) {
  const RouterMatrix& matrix = *router.tensors[role];
  const auto bad = [&](std::string_view what) {
    return Error{ErrorCode::kInvalidArgument, Reason::kBadStore,
                 fmt::format("blk.{}.{}: ggml type {}, {} x {}, {} bytes: {}", Raw(router.layer),
                             NameOf(role), matrix.ggml_type, matrix.rows, matrix.columns,
                             matrix.bytes.size(), what)};
  };
  const kernels::WeightTypeInfo* const info = kernels::FindWeightType(matrix.ggml_type);
  if (info == nullptr || !info->has_kernel) return bad("no type that can be read");
  if (matrix.rows != rows || matrix.columns != columns) {
    return bad(fmt::format("the experts ask for {} x {}", rows, columns));
  }
  const auto type = static_cast<kernels::WeightType>(matrix.ggml_type);
  const std::optional<uint64_t> row_bytes = kernels::RowBytes(type, columns);
  if (!row_bytes || matrix.bytes.size() != *row_bytes * rows) return bad("bytes that do not fit");
  std::vector<float> values(size_t{rows} * columns);
  for (uint32_t row = 0; row < rows; ++row) {
    kernels::DequantiseRow(type, std::span(matrix.bytes).subspan(row * *row_bytes, *row_bytes),
                           std::span(values).subspan(size_t{row} * columns, columns));
  }
  return values;
}

// A softmax or sigmoid only matters where something is added to it.
void AddChoiceBias(RouterScore score, std::span<const float> bias, std::span<float> scores) {
  const float largest = *std::max_element(scores.begin(), scores.end());
  float total = 0;
  for (float& each : scores) {
    each = score == RouterScore::kSigmoid ? 1 / (1 + std::exp(-each)) : std::exp(each - largest);
    total += each;
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    if (score == RouterScore::kSoftmax) scores[i] /= total;
    scores[i] += bias[i];
  }
}

}  // namespace

Result<std::unique_ptr<RouterPredictor>> RouterPredictor::Create(
    std::span<const LayerRouter> routers, const ModelGeometry& geometry) {
  if (routers.empty()) {
    return Error{ErrorCode::kNotFound, Reason::kBadStore,
                 "the store keeps no routers; import the model again"};
  }
  auto predictor = std::make_unique<RouterPredictor>();
  predictor->hidden_ = geometry.hidden;
  for (const LayerRouter& router : routers) {
    const LayerGeometry* const layer = geometry.Find(router.layer);
    if (layer == nullptr) {
      return Error{ErrorCode::kInvalidArgument, Reason::kBadStore,
                   fmt::format("blk.{} has a router and no experts", Raw(router.layer))};
    }
    ASSIGN_OR_RETURN(Layer made, MakeLayer(router, *layer, geometry.hidden));
    predictor->layers_.emplace(router.layer, std::move(made));
  }
  return predictor;
}

Result<RouterPredictor::Layer> RouterPredictor::MakeLayer(const LayerRouter& router,
                                                          const LayerGeometry& geometry,
                                                          uint32_t hidden) {
  const auto has = [&](RouterRole role) {
    return router.tensors[static_cast<size_t>(role)].has_value();
  };
  const auto read = [&](RouterRole role, uint32_t rows, uint32_t columns) {
    return ReadMatrix(router, static_cast<size_t>(role), rows, columns);
  };
  MOE_CHECK(has(RouterRole::kWeight), "the router of blk.{} has no matrix", Raw(router.layer));
  Layer layer;
  layer.experts = geometry.experts;
  layer.score = router.score;
  ASSIGN_OR_RETURN(layer.weight, read(RouterRole::kWeight, geometry.experts, hidden));
  if (has(RouterRole::kLogitBias)) {
    ASSIGN_OR_RETURN(layer.logit_bias, read(RouterRole::kLogitBias, 1, geometry.experts));
  }
  if (has(RouterRole::kChoiceBias)) {
    ASSIGN_OR_RETURN(layer.choice_bias, read(RouterRole::kChoiceBias, 1, geometry.experts));
  }
  return layer;
}

void RouterPredictor::Score(const Layer& layer, std::span<const float> row,
                            std::span<float> scores) const {
  for (uint32_t expert = 0; expert < layer.experts; ++expert) {
    scores[expert] = Dot(layer.weight.data() + size_t{expert} * hidden_, row.data(), hidden_);
  }
  for (size_t i = 0; i < layer.logit_bias.size(); ++i) scores[i] += layer.logit_bias[i];
  if (!layer.choice_bias.empty()) AddChoiceBias(layer.score, layer.choice_bias, scores);
  for (float& score : scores) {
    if (std::isnan(score)) score = -std::numeric_limits<float>::infinity();  // has no order
  }
}

void RouterPredictor::Guess(LayerIndex index, std::span<const float> rows, uint32_t count,
                            Scratch& scratch, std::vector<ExpertIndex>& guesses) const {
  const Layer& layer = layers_.at(index);
  const auto row_count = static_cast<uint32_t>(rows.size() / hidden_);
  count = std::min(count, layer.experts);
  scratch.scores.resize(layer.experts);
  scratch.order.resize(layer.experts);
  scratch.ranked.clear();
  for (uint32_t row = 0; row < row_count; ++row) {
    Score(layer, rows.subspan(size_t{row} * hidden_, hidden_), scratch.scores);
    std::iota(scratch.order.begin(), scratch.order.end(), uint16_t{0});
    std::partial_sort(scratch.order.begin(), scratch.order.begin() + count, scratch.order.end(),
                      [&](uint16_t a, uint16_t b) {
                        const float first = scratch.scores[a];
                        const float second = scratch.scores[b];
                        return first != second ? first > second : a < b;
                      });
    scratch.ranked.insert(scratch.ranked.end(), scratch.order.begin(),
                          scratch.order.begin() + count);
  }
  guesses.clear();
  scratch.taken.assign(layer.experts, false);
  for (uint32_t rank = 0; rank < count; ++rank) {
    for (uint32_t row = 0; row < row_count; ++row) {
      const uint16_t expert = scratch.ranked[size_t{row} * count + rank];
      if (scratch.taken[expert]) continue;
      scratch.taken[expert] = true;
      guesses.push_back(ExpertIndex{expert});
    }
  }
}

}  // namespace moetier
