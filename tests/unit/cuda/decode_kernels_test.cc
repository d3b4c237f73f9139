#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kernels/activation_rows.h"
#include "kernels/cuda/expert_kernels.h"
#include "kernels/cuda/expert_plan.h"
#include "kernels/cuda/simt/sanitizers.h"
#include "tests/unit/cuda/layer_check.h"

namespace moetier::kernels::cuda {
namespace {

// ThreadSanitizer takes a millisecond a CUDA thread: one type a kernel body, few rows and units.
std::vector<WeightType> TestedTypes() {
  if (!simt::kUnderThreadSanitizer) return Rows16Types();
  return {WeightType::kQ4_K, WeightType::kBF16};
}
std::vector<size_t> RowCounts() {
  if (!simt::kUnderThreadSanitizer) return {1, 2, 5, 7};
  return {5};
}

}  // namespace

TEST_CASE("Decode: every type gives the reference's bits for 1, 2, 5 and 7 rows", "[cuda]") {
  for (const WeightType type : TestedTypes()) {
    uint64_t seed = 0;
    for (const size_t rows : RowCounts()) {
      const ExpertShape shape = ShapeOf(type, 256, IsSuper(type) ? 256 : 96);
      CheckExpert({.seed = seed++}, shape, BlockKind::kTame, NormalRows(rows, 256, rows));
    }
  }
}

TEST_CASE("Decode: rows of whole and of incomplete units give the reference's bits", "[cuda]") {
  if (simt::kUnderThreadSanitizer) return;  // no other order of memory than in the case above
  for (const WeightType type : Rows16Types()) {
    for (const uint32_t hidden : {512u, 768u}) {
      const ExpertShape shape = ShapeOf(type, hidden, 256);
      CheckExpert({.seed = hidden}, shape, BlockKind::kTame, NormalRows(2, hidden, hidden));
    }
  }
  for (const WeightType type : {WeightType::kQ4_0, WeightType::kQ8_0, WeightType::kMXFP4}) {
    CheckExpert({.seed = 3}, ShapeOf(type, 288, 160), BlockKind::kTame, NormalRows(3, 288, 5));
    CheckExpert({.seed = 4}, ShapeOf(type, 32, 32), BlockKind::kTame, NormalRows(1, 32, 6));
  }
}

TEST_CASE("Decode: sizes that fill no group, block or pair give the reference's bits", "[cuda]") {
  for (const WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16}) {
    CheckExpert({.seed = 1}, ShapeOf(type, 35, 43), BlockKind::kTame, NormalRows(3, 35, 7));
    CheckExpert({.seed = 2}, ShapeOf(type, 1, 1), BlockKind::kTame, NormalRows(1, 1, 8));
  }
}

TEST_CASE("Decode: biases, activations and mixed types give the reference's bits", "[cuda]") {
  for (const Activation activation :
       {Activation::kSwiGlu, Activation::kGeGlu, Activation::kSwiGluClamped}) {
    const ExpertShape shape = BiasedShape(96, 160, activation);
    CheckExpert({.seed = 5}, shape, BlockKind::kTame, NormalRows(5, 96, 9));
  }
  ExpertShape shape = ShapeOf(WeightType::kQ4_K, 512, 256);
  shape.down = WeightType::kQ6_K;
  CheckExpert({.seed = 6}, shape, BlockKind::kTame, NormalRows(2, 512, 10));
}

TEST_CASE("Decode: extreme scales and inputs give the reference's bits, NaN included", "[cuda]") {
  if (simt::kUnderThreadSanitizer) return;  // the same
  for (const WeightType type : Rows16Types()) {
    Rows inputs = NormalRows(4, 256, 41);
    for (float& value : inputs[0]) value *= 1e18f;
    for (float& value : inputs[1]) value *= 1e-30f;
    for (float& value : inputs[2]) value *= 1e-44f;
    std::fill(inputs[3].begin() + 32, inputs[3].end(), 0.0f);
    CheckExpert({.seed = 7}, ShapeOf(type, 256, 256), BlockKind::kExtreme, inputs);
  }
}

TEST_CASE("Decode: an overflow inside h reaches every output as the one NaN", "[cuda]") {
  const Rows inputs(1, std::vector<float>(64, 1e30f));
  const RandomExpert expert(ShapeOf(WeightType::kQ8_0, 64, 64), BlockKind::kTame, 43);
  const LayerResult got = RunLayer({}, {expert}, inputs, {{0, 0, 1.0f}});
  for (const float value : got.y[0]) CHECK(std::bit_cast<uint32_t>(value) == 0x7FC00000);
  for (const float value : got.out[0]) CHECK(std::bit_cast<uint32_t>(value) == 0x7FC00000);
}

TEST_CASE("Decode: picks of several experts are added in the request's order, whatever the seed",
          "[cuda]") {
  const ExpertShape shape = ShapeOf(WeightType::kQ4_K, 256, 256);
  std::vector<RandomExpert> experts;
  for (uint64_t e = 0; e < 4; ++e) experts.emplace_back(shape, BlockKind::kTame, 60 + e);
  const Rows inputs = NormalRows(3, 256, 11);
  // Row 1 has none; expert 2 serves nobody.
  const std::vector<Pick> picks = {
      {0, 3, 0.5f}, {0, 0, -0.25f}, {0, 1, 2.0f}, {2, 1, 0.125f}, {2, 3, 0.75f}};
  const uint64_t seeds = simt::kUnderThreadSanitizer ? 1 : 5;
  for (uint64_t seed = 0; seed < seeds; ++seed) CheckLayer({.seed = seed}, experts, inputs, picks);
}

TEST_CASE("Prepare: rows are what ActivationRows makes of them", "[cuda]") {
  constexpr uint32_t kColumns = 300;
  Rows inputs = NormalRows(5, kColumns, 12);
  for (float& value : inputs[1]) value *= 1e-32f;
  inputs[2][70] = std::numeric_limits<float>::infinity();
  inputs[3][299] = -std::numeric_limits<float>::quiet_NaN();
  std::fill(inputs[4].begin(), inputs[4].end(), -0.0f);
  const auto owner = Must(KernelDevice::Open(2));
  KernelDevice& device = *owner;
  const PreparedRows out = Must(NewRows(device, 5, kColumns));
  const float* values = Must(Upload(device, Flat(inputs)));
  REQUIRE(LaunchPrepare({values, 5, out}, device.stream()) == 0);
  Must(device.Wait());
  const size_t blocks = out.blocks;
  const std::vector<float> got_values = Must(Download(device, out.values, 32 * 5 * blocks));
  const std::vector<int8_t> got_codes = Must(Download(device, out.codes, 32 * 5 * blocks));
  const std::vector<float> got_scales = Must(Download(device, out.scales, 5 * blocks));
  const std::vector<float> got_sums = Must(Download(device, out.scaled_sums, 5 * blocks));
  const std::vector<int32_t> got_halves = Must(Download(device, out.half_sums, 10 * blocks));
  ActivationRows expected;
  expected.Resize(5, kColumns);
  for (uint32_t row = 0; row < 5; ++row) {
    expected.PutRow(row, inputs[row]);
    const ActivationRow want = expected.row(row);
    for (uint32_t b = 0; b < blocks; ++b) {
      const size_t at = row * blocks + b;
      CAPTURE(row, b);
      CHECK(std::equal(want.codes + 32 * b, want.codes + 32 * b + 32, &got_codes[32 * at]));
      const auto same = [](float a, float c) {
        return std::isnan(a) ? std::isnan(c)
                             : std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(c);
      };
      CHECK(
          std::equal(want.values + 32 * b, want.values + 32 * b + 32, &got_values[32 * at], same));
      CHECK(same(want.scales[b], got_scales[at]));
      CHECK(same(want.scaled_sums[b], got_sums[at]));
      CHECK(want.half_sums[2 * b] == got_halves[2 * at]);
      CHECK(want.half_sums[2 * b + 1] == got_halves[2 * at + 1]);
    }
  }
}

TEST_CASE("ExpertPlan: what the kernels cannot serve is refused, saying why", "[cuda]") {
  ExpertShape shape = ShapeOf(WeightType::kQ8_0, 64, 64);
  const auto refusal = [&](RecordForm form) {
    const Result<ExpertPlan> plan = MakeExpertPlan(shape, *MakeRecordLayout(shape, form));
    return plan.has_value() ? "" : plan.error().message;
  };
  CHECK(refusal(RecordForm::kRows16) == "");
  CHECK_THAT(refusal(RecordForm::kSource), Catch::Contains("need rows16 records"));
  shape.down = WeightType::kQ5_0;
  CHECK_THAT(refusal(RecordForm::kRows16), Catch::Contains("Q5_0 has none"));
  shape.up = WeightType::kQ4_0;
  CHECK_THAT(refusal(RecordForm::kRows16), Catch::Contains("one type, not Q8_0 and Q4_0"));
  CHECK_FALSE(HasExpertKernels(WeightType::kQ5_0));
  for (const WeightType type : Rows16Types()) CHECK(HasExpertKernels(type));
}

}  // namespace moetier::kernels::cuda
