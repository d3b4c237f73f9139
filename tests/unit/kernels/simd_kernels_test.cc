#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/reference/reference_expert.h"
#include "tests/unit/kernels/simd_matrix.h"

// Vector kernels against the scalar reference, bit for bit (NaN equals NaN).

namespace moetier::kernels::test {
namespace {

using KernelOf = MatVecFn (*)(WeightType, KernelVariant);

constexpr WeightType kTypes[] = {WeightType::kQ8_0, WeightType::kQ4_0, WeightType::kMXFP4,
                                 WeightType::kQ4_K, WeightType::kQ5_K, WeightType::kQ6_K,
                                 WeightType::kQ2_K, WeightType::kQ3_K, WeightType::kBF16,
                                 WeightType::kF16,  WeightType::kF32};
constexpr KernelVariant kVariants[] = {{.prefetch = false}, {.prefetch = true}};
constexpr uint32_t kRows = 37;  // three groups, the last incomplete
constexpr uint32_t kTokens = 8;
constexpr float kUntouched = 12345.5f;

std::vector<uint32_t> ColumnsOf(WeightType type) {
  switch (Info(type).block_weights) {
    case 1:
      return {1, 2, 7, 33, 256, 509, 768};
    case 32:
      return {32, 96, 160, 256, 768, 2880};
    default:
      return {256, 512, 768, 2304};
  }
}

bool SameBits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

// What every kernel must give: [token][row].
std::vector<float> ReferenceOf(const TestMatrix& matrix, const ActivationRows& x) {
  std::vector<float> expected(kTokens * kRows);
  for (uint32_t t = 0; t < kTokens; ++t) {
    for (uint32_t row = 0; row < kRows; ++row) {
      expected[t * kRows + row] =
          ReferenceDot(matrix.part().type, matrix.source_row(row), matrix.part().columns, x.row(t));
    }
  }
  return expected;
}

// Differences of `count` tokens from `first` on over groups [begin, end), places that the call must
// not write included.
uint32_t Differences(MatVecFn kernel, const TestMatrix& matrix, const ActivationRows& x,
                     const std::vector<float>& expected, uint32_t first, uint32_t count,
                     uint32_t begin, uint32_t end) {
  std::vector<ActivationRow> tokens;
  for (uint32_t t = first; t < first + count; ++t) tokens.push_back(x.row(t));
  const size_t width = 16 * size_t{end - begin};
  const size_t stride = width + 3;
  std::vector<float> out(count * stride, kUntouched);
  kernel({.part = &matrix.part(),
          .record = matrix.record(),
          .tokens = tokens,
          .group_begin = begin,
          .group_end = end,
          .out = out.data(),
          .out_stride = stride});
  uint32_t differences = 0;
  for (uint32_t t = 0; t < count; ++t) {
    for (size_t i = 0; i < stride; ++i) {
      const size_t row = 16 * begin + i;
      if (i < width && row >= kRows) continue;  // rows of the last group that do not exist
      const float want = i < width ? expected[(first + t) * kRows + row] : kUntouched;
      differences += !SameBits(out[t * stride + i], want);
    }
  }
  return differences;
}

// Every number of tokens in every variant.
uint32_t DifferencesOfShapes(KernelOf kernel_of, const TestMatrix& matrix,
                             const ActivationRows& x) {
  const std::vector<float> expected = ReferenceOf(matrix, x);
  uint32_t differences = 0;
  for (const KernelVariant variant : kVariants) {
    const MatVecFn kernel = kernel_of(matrix.part().type, variant);
    REQUIRE(kernel != nullptr);
    for (uint32_t count = 1; count <= kTokens; ++count) {
      for (uint32_t first = 0; first + count <= kTokens; first += count) {
        differences += Differences(kernel, matrix, x, expected, first, count, 0, matrix.groups());
      }
    }
    differences += Differences(kernel, matrix, x, expected, 2, 3, 1, 2);
  }
  return differences;
}

void CheckAllTypes(KernelOf kernel_of) {
  uint32_t seed = 1;
  for (const WeightType type : kTypes) {
    for (const uint32_t columns : ColumnsOf(type)) {
      for (const Weights weights : kAllWeights) {
        INFO(Info(type).name << ", " << columns << " columns, weights " << static_cast<int>(weights)
                             << ", seed " << seed);
        const TestMatrix matrix(type, kRows, columns, weights, seed);
        CHECK(DifferencesOfShapes(kernel_of, matrix, TestActivations(columns, false, seed)) == 0);
        ++seed;
      }
    }
  }
}

void CheckNonFinite(KernelOf kernel_of) {
  for (const WeightType type : kTypes) {
    constexpr uint32_t kColumns = 256;
    INFO(Info(type).name);
    const TestMatrix matrix(type, kRows, kColumns, Weights::kOrdinary, 7);
    const ActivationRows x = TestActivations(kColumns, true, 7);
    if (Info(type).integer_dot) CHECK(std::isnan(ReferenceOf(matrix, x)[0]));
    CHECK(DifferencesOfShapes(kernel_of, matrix, x) == 0);
  }
}

bool Skipped(InstructionSet set) {
  if (CpuSupports(set)) return false;
  WARN("skipped: this processor lacks " << InstructionSetName(set));
  SUCCEED("nothing to run");
  return true;
}

TEST_CASE("Avx512Kernel: every type and shape gives the reference's bits", "[kernels]") {
  if (!Skipped(InstructionSet::kAvx512)) CheckAllTypes(&Avx512Kernel);
}

TEST_CASE("Avx2Kernel: every type and shape gives the reference's bits", "[kernels]") {
  if (!Skipped(InstructionSet::kAvx2)) CheckAllTypes(&Avx2Kernel);
}

TEST_CASE("Avx512Kernel: a block that is not finite makes the dot NaN", "[kernels]") {
  if (!Skipped(InstructionSet::kAvx512)) CheckNonFinite(&Avx512Kernel);
}

TEST_CASE("Avx2Kernel: a block that is not finite makes the dot NaN", "[kernels]") {
  if (!Skipped(InstructionSet::kAvx2)) CheckNonFinite(&Avx2Kernel);
}

TEST_CASE("ExpertKernels: tuning ends when asked, and without a measurement when out of time",
          "[kernels]") {
  if (BestInstructionSet() == InstructionSet::kScalar) {
    SUCCEED("no vector kernels on this processor");
    return;
  }
  ExpertKernels kernels = *ExpertKernels::Create(BestInstructionSet());
  const std::array types = {WeightType::kQ4_K, WeightType::kQ6_K};
  int asked = 0;
  CHECK(!kernels.Tune(types, {.stop_requested = [&] { return ++asked == 3; }}));
  CHECK(asked == 3);
  const std::chrono::milliseconds none{0};
  const auto report = kernels.Tune(types, {.stop_requested = [] { return false; }, .budget = none});
  REQUIRE(report);
  CHECK_THAT(*report, Catch::Contains("Q6_K: prefetch 4 KiB: the host is too busy to measure\n"));
}

TEST_CASE("ExpertKernels: tuning measures the vector kernels and keeps their bits", "[kernels]") {
  if (BestInstructionSet() == InstructionSet::kScalar) {
    SUCCEED("no vector kernels on this processor");
    return;
  }
  ExpertKernels kernels = *ExpertKernels::Create(BestInstructionSet());
  const std::array types = {WeightType::kQ4_K, WeightType::kIQ4_NL};
  constexpr std::chrono::minutes kEnough{1};  // on any host
  const std::string report =
      kernels.Tune(types, {.stop_requested = [] { return false; }, .budget = kEnough}).value();
  INFO(report);
  CHECK_THAT(report, Catch::Contains(" Q4_K: ") && Catch::Contains("prefetch"));
  CHECK_THAT(report, Catch::Contains("GB/s\n") && Catch::Contains(" IQ4_NL: scalar\n"));

  const TestMatrix matrix(WeightType::kQ4_K, kRows, 512, Weights::kOrdinary, 3);
  const ActivationRows x = TestActivations(512, false, 3);
  const ActivationRow token = x.row(0);
  std::vector<float> out(16 * size_t{matrix.groups()});
  kernels.Run({.part = &matrix.part(),
               .record = matrix.record(),
               .tokens = std::span(&token, 1),
               .group_begin = 0,
               .group_end = matrix.groups(),
               .out = out.data(),
               .out_stride = out.size()});
  const std::vector<float> expected = ReferenceOf(matrix, x);
  CHECK(std::equal(expected.begin(), expected.begin() + kRows, out.begin(), SameBits));
}

}  // namespace
}  // namespace moetier::kernels::test
