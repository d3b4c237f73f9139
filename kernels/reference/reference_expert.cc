#include "kernels/reference/reference_expert.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/reference/block_fields.h"

namespace moetier::kernels {
namespace {

// The weight at `column` of a row of a float type.
float FloatWeight(WeightType type, std::span<const std::byte> row, size_t column) {
  if (type == WeightType::kF32) {
    float value;
    std::memcpy(&value, row.subspan(4 * column, 4).data(), sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, row.subspan(2 * column, 2).data(), sizeof bits);
  return type == WeightType::kF16 ? HalfToFloat(bits) : Bfloat16ToFloat(bits);
}

// sum of code * activation over 16 columns: an exact integer.
int32_t HalfDot(const BlockFields& block, uint32_t half, const int8_t* codes) {
  int32_t sum = 0;
  for (uint32_t i = 16 * half; i < 16 * half + 16; ++i) sum += block.code[i] * codes[i];
  return sum;
}

// Adds block b of a row to the running sum `a`: the step that section "Arithmetic" of
// ARCHITECTURE.md gives for the type.
float AddBlock(WeightType type, const BlockFields& block, uint32_t b, const ActivationRow& x,
               float a) {
  const int32_t dot0 = HalfDot(block, 0, x.codes + size_t{32} * b);
  const int32_t dot1 = HalfDot(block, 1, x.codes + size_t{32} * b);
  const float xs = x.scales[b];
  const float scale = block.d * static_cast<float>(block.scale[0]);         // exact
  const float minimum = block.dmin * static_cast<float>(block.minimum[0]);  // exact
  switch (type) {
    case WeightType::kQ4_1:
    case WeightType::kQ5_1:
    case WeightType::kQ4_K:
    case WeightType::kQ5_K:
      a = std::fma(scale * xs, static_cast<float>(dot0 + dot1), a);
      return std::fma(-minimum, x.scaled_sums[b], a);
    case WeightType::kQ3_K:
    case WeightType::kQ6_K: {
      const int32_t sum = block.scale[0] * dot0 + block.scale[1] * dot1;  // below 2^24
      return std::fma(block.d * xs, static_cast<float>(sum), a);
    }
    case WeightType::kQ2_K: {
      const int32_t sum = block.scale[0] * dot0 + block.scale[1] * dot1;
      const int32_t minima =
          block.minimum[0] * x.half_sums[2 * b] + block.minimum[1] * x.half_sums[2 * b + 1];
      a = std::fma(block.d * xs, static_cast<float>(sum), a);
      return std::fma(-(block.dmin * xs), static_cast<float>(minima), a);
    }
    default:  // one scale: Q4_0, Q5_0, Q8_0, IQ4_NL, IQ4_XS, MXFP4
      return std::fma(scale * xs, static_cast<float>(dot0 + dot1), a);
  }
}

// x in [-87, 88] or NaN.
float Exp(float x) {
  if (std::isnan(x)) return x;
  const float n = std::nearbyint(x * 1.44269504f);
  float r = std::fma(n, -0.693145752f, x);
  r = std::fma(n, -1.42860677e-6f, r);
  float p = 1.0f / 5040;
  for (const float coefficient :
       {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 1.0f / 2, 1.0f, 1.0f}) {
    p = std::fma(p, r, coefficient);
  }
  return std::ldexp(p, static_cast<int>(n));
}

// g times the logistic function of z.
float TimesSigmoid(float g, float z) {
  float x = -z;
  if (x < -87.0f) x = -87.0f;
  if (x > 88.0f) x = 88.0f;
  return g / (1.0f + Exp(x));
}

// One matrix of an expert in the source form, and its bias if it has one.
struct Matrix {
  Matrix(WeightType matrix_type, const SourceExpert& source, PartRole role, PartRole bias_role,
         uint32_t matrix_columns)
      : type(matrix_type),
        bytes(source.parts[static_cast<size_t>(role)]),
        bias(source.parts[static_cast<size_t>(bias_role)]),
        columns(matrix_columns),
        row_bytes(*RowBytes(matrix_type, matrix_columns)) {}

  [[nodiscard]] std::span<const std::byte> Row(uint32_t row) const {
    return bytes.subspan(row * row_bytes, row_bytes);
  }
  [[nodiscard]] float Bias(uint32_t row) const { return FloatWeight(WeightType::kF32, bias, row); }

  // One f32 addition where there is a bias, none where there is not.
  [[nodiscard]] float Dot(uint32_t row, const ActivationRow& x) const {
    const float dot = ReferenceDot(type, Row(row), columns, x);
    return bias.empty() ? dot : dot + Bias(row);
  }
  [[nodiscard]] double DoubleDot(uint32_t row, std::span<const double> x) const {
    std::vector<float> weights(columns);
    DequantiseRow(type, Row(row), weights);
    double sum = 0;
    for (uint32_t c = 0; c < columns; ++c) sum += double{weights[c]} * x[c];
    return bias.empty() ? sum : sum + double{Bias(row)};
  }

  WeightType type;
  std::span<const std::byte> bytes;
  std::span<const std::byte> bias;
  uint32_t columns;
  uint64_t row_bytes;
};

struct Matrices {
  Matrices(const ExpertShape& shape, const SourceExpert& source)
      : gate(shape.gate, source, PartRole::kGate, PartRole::kGateBias, shape.hidden),
        up(shape.up, source, PartRole::kUp, PartRole::kUpBias, shape.hidden),
        down(shape.down, source, PartRole::kDown, PartRole::kDownBias, shape.ffn) {}
  Matrix gate;
  Matrix up;
  Matrix down;
};

double DoubleActivation(Activation activation, double g, double u) {
  switch (activation) {
    case Activation::kSwiGlu:
      return g / (1 + std::exp(-g)) * u;
    case Activation::kGeGlu: {
      const double root = std::sqrt(2 / std::acos(-1.0));
      return g / 2 * (1 + std::tanh(root * (g + 0.044715 * g * g * g))) * u;
    }
    case Activation::kSwiGluClamped: {
      const double gate = std::fmin(g, 7);
      return gate / (1 + std::exp(-1.702 * gate)) * (std::fmax(std::fmin(u, 7), -7) + 1);
    }
  }
  CheckFailed(__FILE__, __LINE__, "activation", "unknown activation");
}

}  // namespace

void DequantiseRow(WeightType type, std::span<const std::byte> row, std::span<float> out) {
  if (!Info(type).integer_dot) {
    for (size_t c = 0; c < out.size(); ++c) out[c] = FloatWeight(type, row, c);
    return;
  }
  for (uint32_t b = 0; b < out.size() / 32; ++b) {
    const BlockFields block = ReadBlockFields(type, row, b);
    for (uint32_t i = 0; i < 32; ++i) {
      const float scale = block.d * static_cast<float>(block.scale[i / 16]);
      const float minimum = block.dmin * static_cast<float>(block.minimum[i / 16]);
      out[32 * b + i] = scale * static_cast<float>(block.code[i]) - minimum;
    }
  }
}

float ReferenceDot(WeightType type, std::span<const std::byte> row, uint32_t columns,
                   const ActivationRow& x) {
  float a[4] = {0, 0, 0, 0};
  if (Info(type).integer_dot) {
    for (uint32_t b = 0; b < columns / 32; ++b) {
      a[b % 4] = AddBlock(type, ReadBlockFields(type, row, b), b, x, a[b % 4]);
    }
  } else {
    for (uint32_t c = 0; c < columns; ++c) {
      float& sum = a[c / 2 % 4];
      sum = std::fma(FloatWeight(type, row, c), x.values[c], sum);
    }
  }
  return (a[0] + a[1]) + (a[2] + a[3]);
}

float ReferenceActivation(Activation activation, float gate, float up) {
  switch (activation) {
    case Activation::kSwiGlu:
      return TimesSigmoid(gate, gate) * up;
    case Activation::kGeGlu: {
      // gelu_tanh(g) = g * sigmoid(2 sqrt(2 / pi) (g + 0.044715 g^3))
      const float slope = std::fma(gate * gate, 0.0713548163f, 1.59576912f);
      return TimesSigmoid(gate, gate * slope) * up;
    }
    case Activation::kSwiGluClamped: {
      const float g = gate > 7.0f ? 7.0f : gate;
      const float capped = up > 7.0f ? 7.0f : up;
      const float u = capped < -7.0f ? -7.0f : capped;
      return TimesSigmoid(g, 1.702f * g) * (u + 1.0f);
    }
  }
  CheckFailed(__FILE__, __LINE__, "activation", "unknown activation");
}

void ReferenceExpert(const ExpertShape& shape, const SourceExpert& source,
                     std::span<const float> hidden, std::span<float> out) {
  const Matrices matrices(shape, source);
  ActivationRows x;
  x.Resize(1, shape.hidden);
  x.PutRow(0, hidden);
  std::vector<float> h(shape.ffn);
  for (uint32_t row = 0; row < shape.ffn; ++row) {
    h[row] = ReferenceActivation(shape.activation, matrices.gate.Dot(row, x.row(0)),
                                 matrices.up.Dot(row, x.row(0)));
  }
  ActivationRows prepared;
  prepared.Resize(1, shape.ffn);
  prepared.PutRow(0, h);
  for (uint32_t row = 0; row < shape.hidden; ++row) {
    const float y = matrices.down.Dot(row, prepared.row(0));
    out[row] = std::isnan(y) ? std::numeric_limits<float>::quiet_NaN() : y;
  }
}

void DoubleExpert(const ExpertShape& shape, const SourceExpert& source,
                  std::span<const float> hidden, std::span<double> out) {
  const Matrices matrices(shape, source);
  const std::vector<double> x(hidden.begin(), hidden.end());
  std::vector<double> h(shape.ffn);
  for (uint32_t row = 0; row < shape.ffn; ++row) {
    h[row] = DoubleActivation(shape.activation, matrices.gate.DoubleDot(row, x),
                              matrices.up.DoubleDot(row, x));
  }
  for (uint32_t row = 0; row < shape.hidden; ++row) out[row] = matrices.down.DoubleDot(row, h);
}

}  // namespace moetier::kernels
