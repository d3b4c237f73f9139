#include "daemon/ctl/golden_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "daemon/ctl/npy.h"

namespace moetier {
namespace {

constexpr Bytes kLimit = 1_GiB;  // of one file
constexpr uint64_t kMaxTokens = 1 << 20;
constexpr uint64_t kMaxLayers = 1024;  // kMaxLayers of the store
constexpr uint64_t kMaxTopK = 64;
constexpr uint64_t kMaxHidden = 65536;

Error BadGolden(std::string message) {
  return Error{ErrorCode::kInvalidArgument, Reason::kUnspecified, std::move(message)};
}

Status CheckShape(const std::string& path, const std::vector<uint64_t>& shape,
                  const std::vector<uint64_t>& expected) {
  if (shape == expected) return Ok();
  return BadGolden(fmt::format("{}: shape [{}], expected [{}] to agree with hidden.npy", path,
                               fmt::join(shape, ", "), fmt::join(expected, ", ")));
}

Status CheckFinite(const std::string& path, std::span<const float> values) {
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  if (bad == values.end()) return Ok();
  return BadGolden(fmt::format("{}: element {} is not finite", path, bad - values.begin()));
}

}  // namespace

std::span<const float> GoldenRows::HiddenOf(uint32_t token, uint32_t layer) const {
  const size_t row = size_t{token} * layers + layer;
  return std::span(hidden).subspan(row * hidden_size, hidden_size);
}

std::span<const uint32_t> GoldenRows::ExpertsOf(uint32_t token, uint32_t layer) const {
  return std::span(experts).subspan((size_t{token} * layers + layer) * top_k, top_k);
}

std::span<const float> GoldenRows::WeightsOf(uint32_t token, uint32_t layer) const {
  return std::span(weights).subspan((size_t{token} * layers + layer) * top_k, top_k);
}

Result<GoldenRows> ReadGoldenRows(const std::string& directory) {
  const std::string hidden_path = directory + "/hidden.npy";
  const std::string experts_path = directory + "/experts.npy";
  const std::string weights_path = directory + "/weights.npy";
  const std::string output_path = directory + "/output.npy";
  ASSIGN_OR_RETURN(NpyArray<float> hidden, ReadNpyF32(hidden_path, kLimit));
  ASSIGN_OR_RETURN(const NpyArray<int32_t> experts, ReadNpyI32(experts_path, kLimit));
  ASSIGN_OR_RETURN(NpyArray<float> weights, ReadNpyF32(weights_path, kLimit));
  ASSIGN_OR_RETURN(NpyArray<float> output, ReadNpyF32(output_path, kLimit));

  const std::vector<uint64_t>& shape = hidden.shape;
  const bool good_shape = shape.size() == 3 && shape[0] >= 1 && shape[0] <= kMaxTokens &&
                          shape[1] >= 1 && shape[1] <= kMaxLayers && shape[2] >= 1 &&
                          shape[2] <= kMaxHidden;
  if (!good_shape) {
    return BadGolden(fmt::format("{}: shape [{}], expected [tokens, layers, hidden]", hidden_path,
                                 fmt::join(shape, ", ")));
  }
  const uint64_t top_k = experts.shape.empty() ? 0 : experts.shape.back();
  if (top_k < 1 || top_k > kMaxTopK) {
    return BadGolden(fmt::format("{}: shape [{}], expected [tokens, layers, 1 to {}]", experts_path,
                                 fmt::join(experts.shape, ", "), kMaxTopK));
  }
  RETURN_IF_ERROR(CheckShape(experts_path, experts.shape, {shape[0], shape[1], top_k}));
  RETURN_IF_ERROR(CheckShape(weights_path, weights.shape, {shape[0], shape[1], top_k}));
  RETURN_IF_ERROR(CheckShape(output_path, output.shape, shape));
  RETURN_IF_ERROR(CheckFinite(hidden_path, hidden.values));
  RETURN_IF_ERROR(CheckFinite(weights_path, weights.values));
  RETURN_IF_ERROR(CheckFinite(output_path, output.values));

  GoldenRows rows;
  rows.tokens = static_cast<uint32_t>(shape[0]);
  rows.layers = static_cast<uint32_t>(shape[1]);
  rows.hidden_size = static_cast<uint32_t>(shape[2]);
  rows.top_k = static_cast<uint32_t>(top_k);
  rows.hidden = std::move(hidden.values);
  rows.weights = std::move(weights.values);
  rows.output = std::move(output.values);
  rows.experts.reserve(experts.values.size());
  for (const int32_t expert : experts.values) {
    if (expert < 0) return BadGolden(fmt::format("{}: expert {}", experts_path, expert));
    rows.experts.push_back(static_cast<uint32_t>(expert));
  }
  return rows;
}

}  // namespace moetier
