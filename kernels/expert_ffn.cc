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

// Dots of one group of 16 rows, the unit's `group`-th, with each token. Rows beyond the matrix hold
// some value that nobody uses.
void RunGroup(const ExpertKernels& kernels, const ExpertView& expert, PartRole role,
              std::span<const ActivationRow> tokens, uint32_t unit, uint32_t group, UnitRows& out) {
  const std::optional<RecordPart>& part = expert.layout->part(role);
  MOE_CHECK(part.has_value() && unit < Units(part->rows), "unit {} of an expert", unit);
  MOE_CHECK(tokens.size() <= kMaxTokens, "{} tokens, at most {}", tokens.size(), kMaxTokens);
  const uint32_t index = unit * kUnitGroups + group;
  if (index * kGroupRows >= part->rows) {
    for (size_t t = 0; t < tokens.size(); ++t) {
      std::fill_n(out.token[t].begin() + group * kGroupRows, kGroupRows, 0.0f);
    }
    return;
  }
  kernels.Run({.part = &*part,
               .record = expert.record,
               .tokens = tokens,
               .group_begin = index,
               .group_end = index + 1,
               .out = out.token[0].data() + group * kGroupRows,
               .out_stride = kUnitRows});
}

void AddBias(const ExpertView& expert, PartRole role, size_t tokens, uint32_t unit, UnitRows& out) {
  const std::optional<RecordPart>& bias = expert.layout->part(role);
  if (!bias.has_value()) return;
  std::array<float, kUnitRows> values{};
  const uint32_t count = std::min(kUnitRows, bias->rows - unit * kUnitRows);
  std::memcpy(values.data(), expert.record + bias->offset + size_t{unit} * sizeof values,
              count * sizeof(float));
  for (size_t t = 0; t < tokens; ++t) {
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
  // As the record has them: memory is read in one ascending stream, whose speed two that take turns
  // do not reach (measured: 0.97 and 0.71 of a plain read loop for Q4_K).
  for (uint32_t group = 0; group < kUnitGroups; ++group) {
    RunGroup(kernels, expert, PartRole::kGate, tokens, unit, group, gate);
    RunGroup(kernels, expert, PartRole::kUp, tokens, unit, group, up);
  }
  AddBias(expert, PartRole::kGateBias, tokens.size(), unit, gate);
  AddBias(expert, PartRole::kUpBias, tokens.size(), unit, up);
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
  for (uint32_t group = 0; group < kUnitGroups; ++group) {
    RunGroup(kernels, expert, PartRole::kDown, h, unit, group, rows);
  }
  AddBias(expert, PartRole::kDownBias, h.size(), unit, rows);
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
