#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "kernels/reference/block_fields.h"
#include "kernels/reference/reference_expert.h"
#include "tests/unit/kernels/random_expert.h"

namespace moetier::kernels {
namespace {

std::vector<std::byte> ReadFixture(std::string_view name) {
  const std::string path = std::string(MOETIER_TEST_DATA "/dequant/") + std::string(name) + ".bin";
  std::ifstream file(path, std::ios::binary);
  INFO(path);
  REQUIRE(file.is_open());
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

double RelativeError(const std::vector<float>& got, const std::vector<double>& expected) {
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += std::pow(double{got[i]} - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  return std::sqrt(error / norm);
}

}  // namespace

TEST_CASE("DequantiseRow: equals ggml's to_float to the bit for every type", "[kernels]") {
  for (const WeightType type : kKernelTypes) {
    if (type == WeightType::kF32) continue;  // ggml has no conversion for it
    const WeightTypeInfo& info = Info(type);
    const std::vector<std::byte> fixture = ReadFixture(info.name);
    const size_t block_and_weights = info.block_bytes + info.block_weights * sizeof(float);
    REQUIRE(fixture.size() % block_and_weights == 0);
    const size_t blocks = fixture.size() / block_and_weights;
    REQUIRE(blocks >= 8);
    std::vector<float> weights(blocks * info.block_weights);
    DequantiseRow(type, std::span(fixture).first(blocks * info.block_bytes), weights);
    size_t different = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      uint32_t expected;
      std::memcpy(&expected, &fixture[blocks * info.block_bytes + 4 * i], sizeof expected);
      if (std::bit_cast<uint32_t>(weights[i]) != expected) ++different;
    }
    CAPTURE(info.name, weights.size());
    CHECK(different == 0);
  }
}

TEST_CASE("HalfToFloat: named values and every subnormal are exact", "[kernels]") {
  CHECK(HalfToFloat(0x3C00) == 1.0f);
  CHECK(HalfToFloat(0xC500) == -5.0f);
  CHECK(HalfToFloat(0x7BFF) == 65504.0f);
  CHECK(std::isinf(HalfToFloat(0xFC00)));
  CHECK(std::isnan(HalfToFloat(0x7E01)));
  CHECK(std::signbit(HalfToFloat(0x8000)));
  for (uint16_t bits = 0; bits < 1024; ++bits) {
    if (HalfToFloat(bits) != std::ldexp(static_cast<float>(bits), -24)) FAIL("bits " << bits);
  }
}

TEST_CASE("ReferenceActivation: SwiGLU within 4e-7 of double, the others within 6e-6",
          "[kernels]") {
  double worst[3] = {0, 0, 0};
  for (int step = -9000; step <= 9000; ++step) {
    const float g = static_cast<float>(step) * 0.01f;
    const double x = g;
    const double swiglu = x / (1 + std::exp(-x));
    const double z = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
    const double gelu = x / (1 + std::exp(-2 * z));
    const double gate = std::fmin(x, 7);
    const double clamped = gate / (1 + std::exp(-1.702 * gate)) * 1.5;
    const auto note = [&](Activation activation, double expected, float up) {
      const double got = ReferenceActivation(activation, g, up);
      if (std::fabs(expected) < 1e-30) return;  // below the clamp of exp
      double& most = worst[static_cast<size_t>(activation)];
      most = std::fmax(most, std::fabs(got - expected) / std::fabs(expected));
    };
    if (step > -8600) note(Activation::kSwiGlu, swiglu, 1.0f);
    // The argument of exp is rounded to f32: its absolute error, not that of exp, grows with z.
    if (step > -300) note(Activation::kGeGlu, gelu, 1.0f);
    if (step > -5000) note(Activation::kSwiGluClamped, clamped, 0.5f);
  }
  INFO(worst[0] << " " << worst[1] << " " << worst[2]);
  CHECK(worst[0] < 4e-7);
  CHECK(worst[1] < 4e-6);
  CHECK(worst[2] < 6e-6);
}

TEST_CASE("ReferenceActivation: limits and non-finite values do what is written", "[kernels]") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(ReferenceActivation(Activation::kSwiGlu, 0.0f, 5.0f) == 0.0f);
  CHECK(ReferenceActivation(Activation::kSwiGlu, 100.0f, 2.0f) == 200.0f);
  CHECK(std::fabs(ReferenceActivation(Activation::kSwiGlu, -1000.0f, 1.0f)) < 1e-34f);
  CHECK(ReferenceActivation(Activation::kSwiGlu, kInf, 1.0f) == kInf);
  CHECK(std::isnan(ReferenceActivation(Activation::kSwiGlu, nan, 1.0f)));
  CHECK(std::isnan(ReferenceActivation(Activation::kGeGlu, nan, 1.0f)));
  CHECK(std::isnan(ReferenceActivation(Activation::kSwiGluClamped, 1.0f, nan)));
  const float at_seven = ReferenceActivation(Activation::kSwiGluClamped, 7.0f, 7.0f);
  CHECK(ReferenceActivation(Activation::kSwiGluClamped, 50.0f, 50.0f) == at_seven);
  CHECK(ReferenceActivation(Activation::kSwiGluClamped, 1.0f, -9.0f) ==
        ReferenceActivation(Activation::kSwiGluClamped, 1.0f, -7.0f));
}

TEST_CASE("ReferenceExpert: within 3 % of double for int8 types, 2e-6 for floats", "[kernels]") {
  for (const WeightType type : kKernelTypes) {
    for (const Activation activation :
         {Activation::kSwiGlu, Activation::kGeGlu, Activation::kSwiGluClamped}) {
      const ExpertShape shape = {.hidden = 512,
                                 .ffn = 256,
                                 .activation = activation,
                                 .gate = type,
                                 .up = type,
                                 .down = type,
                                 .gate_bias = true,
                                 .down_bias = true};
      const RandomExpert expert(shape, BlockKind::kTame, 11);
      std::mt19937_64 random(13);
      const std::vector<float> hidden = NormalRow(shape.hidden, random);
      std::vector<float> out(shape.hidden);
      std::vector<double> exact(shape.hidden);
      ReferenceExpert(shape, expert.source(), hidden, out);
      DoubleExpert(shape, expert.source(), hidden, exact);
      CAPTURE(Info(type).name, static_cast<int>(activation));
      CHECK(RelativeError(out, exact) < (Info(type).integer_dot ? 0.03 : 2e-6));
    }
  }
}

TEST_CASE("ReferenceDot: the four running sums take blocks in turn", "[kernels]") {
  // One weight of 1 a block of 32; the sums' order shows in the rounding of 2^24 + 1 + 1.
  std::vector<std::byte> row(8 * 34);
  for (size_t b = 0; b < 8; ++b) {
    const uint16_t one = 0x3C00;
    std::memcpy(&row[b * 34], &one, sizeof one);
    row[b * 34 + 2] = std::byte{1};
  }
  std::vector<float> x(256);
  for (size_t b = 0; b < 8; ++b) x[32 * b] = 127;
  x[0] = 127 * 0x1p24f;
  ActivationRows rows;
  rows.Resize(1, 256);
  rows.PutRow(0, x);
  // a0 = 127 * 2^24 + 127 (block 4) rounds to 127 * 2^24 + 128; the others are 254 each.
  const float expected = (127 * 0x1p24f + 128.0f + 254.0f) + (254.0f + 254.0f);
  CHECK(ReferenceDot(WeightType::kQ8_0, row, 256, rows.row(0)) == expected);
}

}  // namespace moetier::kernels
