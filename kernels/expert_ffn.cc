#include "kernels/expert_ffn.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/rows16.h"

namespace moetier::kernels {
namespace {

constexpr uint32_t kUnitRows = kActivationBlock;  // two groups make one block of h
constexpr uint32_t kUnitGroups = kUnitRows / kGroupRows;
static_assert(kUnitRows == kActivateWidth);

uint32_t Units(uint32_t rows) { return (rows + kUnitRows - 1) / kUnitRows; }

// The 32 rows of one unit for up to kMaxTokens tokens.
struct UnitRows {
  alignas(64) std::array<std::array<float, kUnitRows>, kMaxTokens> token;
};

// Dots of a unit's rows with each token, plus the bias if there is one. Rows beyond the matrix hold
// some value that nobody uses.
void RunUnit(const ExpertKernels& kernels, const ExpertView& expert, PartRole role,
             PartRole bias_role, std::span<const ActivationRow> tokens, uint32_t unit,
             UnitRows& out) {
  const std::optional<RecordPart>& part = expert.layout->part(role);
  MOE_CHECK(part.has_value() && unit < Units(part->rows), "unit {} of an expert", unit);
  MOE_CHECK(tokens.size() <= kMaxTokens, "{} tokens, at most {}", tokens.size(), kMaxTokens);
  const uint32_t groups = (part->rows + kGroupRows - 1) / kGroupRows;
  const uint32_t begin = unit * kUnitGroups;
  const uint32_t end = std::min(begin + kUnitGroups, groups);
  if (end - begin < kUnitGroups) out = {};
  kernels.Run({.part = &*part,
               .record = expert.record,
               .tokens = tokens,
               .group_begin = begin,
               .group_end = end,
               .out = out.token[0].data(),
               .out_stride = kUnitRows});
  const std::optional<RecordPart>& bias = expert.layout->part(bias_role);
  if (!bias.has_value()) return;
  std::array<float, kUnitRows> values{};
  const uint32_t count = std::min(kUnitRows, bias->rows - unit * kUnitRows);
  std::memcpy(values.data(), expert.record + bias->offset + size_t{unit} * sizeof values,
              count * sizeof(float));
  for (size_t t = 0; t < tokens.size(); ++t) {
    for (uint32_t i = 0; i < kUnitRows; ++i) out.token[t][i] += values[i];
  }
}

}  // namespace

uint32_t GateUpUnits(const ExpertShape& shape) { return Units(shape.ffn); }
uint32_t DownUnits(const ExpertShape& shape) { return Units(shape.hidden); }

void RunGateUpUnit(const ExpertKernels& kernels, const ExpertView& expert,
                   std::span<const ActivationRow> tokens, uint32_t unit, ActivationRows& h,
                   uint32_t first_h_row) {
  UnitRows gate;
  UnitRows up;
  RunUnit(kernels, expert, PartRole::kGate, PartRole::kGateBias, tokens, unit, gate);
  RunUnit(kernels, expert, PartRole::kUp, PartRole::kUpBias, tokens, unit, up);
  const ElementwiseCode code = BestElementwiseCode();
  const uint32_t count = std::min(kUnitRows, expert.shape->ffn - unit * kUnitRows);
  for (uint32_t t = 0; t < tokens.size(); ++t) {
    std::array<float, kUnitRows> values;
    Activate(code, expert.shape->activation, gate.token[t].data(), up.token[t].data(),
             values.data());
    h.PutBlock(first_h_row + t, unit, std::span(values).first(count));
  }
}

void RunDownUnit(const ExpertKernels& kernels, const ExpertView& expert,
                 std::span<const ActivationRow> h, uint32_t unit, std::span<float* const> y) {
  MOE_CHECK(y.size() == h.size(), "{} outputs for {} rows", y.size(), h.size());
  UnitRows rows;
  RunUnit(kernels, expert, PartRole::kDown, PartRole::kDownBias, h, unit, rows);
  const uint32_t count = std::min(kUnitRows, expert.shape->hidden - unit * kUnitRows);
  for (size_t t = 0; t < h.size(); ++t) {
    const std::span<float> out(y[t] + size_t{unit} * kUnitRows, count);
    std::copy_n(rows.token[t].data(), count, out.data());
    CanonicaliseNan(out);
  }
}

void AddWeighted(std::span<float> out, float weight, std::span<const float> y) {
  MOE_CHECK(out.size() == y.size(), "{} and {} values", out.size(), y.size());
  AddScaled(BestElementwiseCode(), weight, y.data(), out.data(), out.size());
}

void CanonicaliseNan(std::span<float> out) {
  for (float& value : out) {
    value = std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value;
  }
}

}  // namespace moetier::kernels
