#include "kernels/activation_rows.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kernels/cpu/elementwise.h"
#include "tests/unit/kernels/random_expert.h"

namespace moetier::kernels {
namespace {

ActivationRows Prepared(const std::vector<float>& values) {
  ActivationRows rows;
  rows.Resize(1, static_cast<uint32_t>(values.size()));
  rows.PutRow(0, values);
  return rows;
}

// The rule as it is written, one block.
struct Expected {
  explicit Expected(std::span<const float> x) {
    float m = 0;
    for (const float value : x) m = std::fmax(m, std::fabs(value));
    if (m >= 0x1p-100f) {
      scale = m / 127;
      for (size_t i = 0; i < x.size(); ++i) {
        codes[i] = static_cast<int>(std::nearbyint(x[i] * (127 / m)));
        half_sums[i / 16] += codes[i];
      }
    }
    scaled_sum = scale * static_cast<float>(half_sums[0] + half_sums[1]);
  }
  float scale = 0;
  std::array<int, 32> codes{};
  std::array<int, 2> half_sums{};
  float scaled_sum;
};

void CheckRule(const std::vector<float>& values) {
  const ActivationRows rows = Prepared(values);
  const ActivationRow row = rows.row(0);
  for (uint32_t b = 0; b < rows.blocks(); ++b) {
    const size_t width = std::min<size_t>(32, values.size() - 32 * b);
    const Expected expected{std::span(values).subspan(32 * b, width)};
    CAPTURE(b);
    CHECK(std::bit_cast<uint32_t>(row.scales[b]) == std::bit_cast<uint32_t>(expected.scale));
    CHECK(std::bit_cast<uint32_t>(row.scaled_sums[b]) ==
          std::bit_cast<uint32_t>(expected.scaled_sum));
    CHECK(row.half_sums[2 * b] == expected.half_sums[0]);
    CHECK(row.half_sums[2 * b + 1] == expected.half_sums[1]);
    for (size_t i = 0; i < 32; ++i) {
      if (row.codes[32 * b + i] != expected.codes[i]) FAIL("code " << i << " of block " << b);
      if (i >= width && row.values[32 * b + i] != 0) FAIL("padding " << i << " of block " << b);
    }
  }
}

}  // namespace

TEST_CASE("ActivationRows: codes, scales and sums follow the written rule", "[kernels]") {
  std::mt19937_64 random(5);
  for (const float factor : {1.0f, 1e18f, 1e-18f, 1e-29f, 3e-31f, 1e-44f, 8e37f}) {
    std::vector<float> row = NormalRow(32 * 40, random);
    for (float& value : row) value *= factor;
    CAPTURE(factor);
    CheckRule(row);
  }
  std::vector<float> outlier = NormalRow(64, random);
  outlier[40] = 1e5f;
  CheckRule(outlier);
  CheckRule(std::vector<float>(64, -2.5f));
  CheckRule(NormalRow(33, random));
  CheckRule(NormalRow(7, random));
}

TEST_CASE("ActivationRows: ties round to even", "[kernels]") {
  std::vector<float> row(32);
  row[0] = 127;  // the scale is 1
  row[1] = 0.5f;
  row[2] = 1.5f;
  row[3] = -2.5f;
  const ActivationRows rows = Prepared(row);
  CHECK(rows.row(0).scales[0] == 1.0f);
  CHECK(rows.row(0).codes[1] == 0);
  CHECK(rows.row(0).codes[2] == 2);
  CHECK(rows.row(0).codes[3] == -2);
}

TEST_CASE("ActivationRows: a block below 2^-100 is zero, one at it is not", "[kernels]") {
  std::vector<float> row(32, 0x1.fffffep-101f);
  CHECK(Prepared(row).row(0).scales[0] == 0);
  CHECK(Prepared(row).row(0).codes[0] == 0);
  row[3] = -0x1p-100f;
  CHECK(Prepared(row).row(0).codes[3] == -127);
}

TEST_CASE("ActivationRows: the largest float has code 127, never 128", "[kernels]") {
  const float largest = std::numeric_limits<float>::max();
  const ActivationRows rows = Prepared({largest, -largest, 1.0f});
  CHECK(rows.row(0).codes[0] == 127);
  CHECK(rows.row(0).codes[1] == -127);
  CHECK(rows.row(0).codes[2] == 0);
}

TEST_CASE("ActivationRows: NaN or infinity makes its own block NaN and no other", "[kernels]") {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
        std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> row(96, 1.0f);
    row[50] = bad;
    const ActivationRows rows = Prepared(row);
    CHECK(rows.row(0).scales[0] == 1.0f / 127);
    CHECK(std::isnan(rows.row(0).scales[1]));
    CHECK(std::isnan(rows.row(0).scaled_sums[1]));
    CHECK(rows.row(0).codes[50] == 0);
    CHECK(rows.row(0).codes[51] == 0);
    CHECK(rows.row(0).half_sums[2] == 0);
    CHECK(rows.row(0).scales[2] == 1.0f / 127);
  }
}

TEST_CASE("ActivationRows: the portable and the vector code quantise alike", "[kernels]") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 3000; ++round) {
    // Any bits: subnormals, huge values; every other round without NaN and infinity.
    std::array<float, 32> values;
    for (float& value : values) {
      const auto bits = static_cast<uint32_t>(random());
      value = std::bit_cast<float>(round % 2 == 0 ? bits & 0xBFFFFFFF : bits);
    }
    std::array<int8_t, 32> codes[2];
    const QuantisedBlock portable =
        QuantiseBlock(ElementwiseCode::kPortable, values.data(), codes[0].data());
    const QuantisedBlock best =
        QuantiseBlock(BestElementwiseCode(), values.data(), codes[1].data());
    if (codes[0] != codes[1] || portable.half_sums != best.half_sums ||
        std::bit_cast<uint32_t>(portable.scale) != std::bit_cast<uint32_t>(best.scale) ||
        std::bit_cast<uint32_t>(portable.scaled_sum) != std::bit_cast<uint32_t>(best.scaled_sum)) {
      FAIL("round " << round);
    }
  }
}

TEST_CASE("ActivationRows: rows are aligned, apart, and survive a move", "[kernels]") {
  std::mt19937_64 random(9);
  ActivationRows rows;
  rows.Resize(5, 100);
  std::vector<std::vector<float>> inputs;
  for (uint32_t r = 0; r < 5; ++r) inputs.push_back(NormalRow(100, random));
  for (uint32_t r = 0; r < 5; ++r) rows.PutRow(r, inputs[r]);
  const ActivationRows moved = std::move(rows);
  for (uint32_t r = 0; r < 5; ++r) {
    const ActivationRow row = moved.row(r);
    for (const void* plane :
         {static_cast<const void*>(row.values), static_cast<const void*>(row.codes),
          static_cast<const void*>(row.scales), static_cast<const void*>(row.scaled_sums),
          static_cast<const void*>(row.half_sums)}) {
      CHECK(reinterpret_cast<uintptr_t>(plane) % 64 == 0);
    }
    CHECK(std::equal(inputs[r].begin(), inputs[r].end(), row.values));
  }
}

}  // namespace moetier::kernels
