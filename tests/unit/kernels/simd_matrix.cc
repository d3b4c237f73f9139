#include "tests/unit/kernels/simd_matrix.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/rows16.h"

namespace moetier::kernels::test {
namespace {

// Byte offsets of the f16 fields of a block.
std::vector<size_t> HalfFields(WeightType type) {
  switch (type) {
    case WeightType::kQ4_0:
    case WeightType::kQ8_0:
    case WeightType::kF16:
      return {0};
    case WeightType::kQ4_K:
    case WeightType::kQ5_K:
      return {0, 2};
    case WeightType::kQ6_K:
      return {208};
    case WeightType::kQ2_K:
      return {80, 82};
    case WeightType::kQ3_K:
      return {108};
    default:
      return {};
  }
}

uint16_t HalfScale(Weights weights, std::mt19937& random) {
  const auto bits = static_cast<uint16_t>(random());
  switch (weights) {
    case Weights::kOrdinary:  // exponents 2^-5 .. 2^2
      return static_cast<uint16_t>((bits & 0x83FF) | (10 + random() % 8) << 10);
    case Weights::kExtreme:
      return static_cast<uint16_t>((bits & 0x83FF) | random() % 31 << 10);
    default:
      return 0x3C00;  // 1
  }
}

// BF16 and F32 share the exponent's place in the upper half word.
uint16_t FloatTop(Weights weights, std::mt19937& random) {
  const auto bits = static_cast<uint16_t>(random());
  const uint32_t exponent =
      static_cast<uint32_t>(weights == Weights::kExtreme ? random() % 255 : 120 + random() % 10);
  return static_cast<uint16_t>((bits & 0x807F) | exponent << 7);
}

void FillCodes(Weights weights, std::mt19937& random, std::span<std::byte> block) {
  for (std::byte& byte : block) {
    byte = weights == Weights::kAllOnes   ? std::byte{0xFF}
           : weights == Weights::kBytes80 ? std::byte{0x80}
                                          : static_cast<std::byte>(random());
  }
}

void FillBlock(WeightType type, Weights weights, std::mt19937& random, std::span<std::byte> block) {
  FillCodes(weights, random, block);
  for (const size_t field : HalfFields(type)) {
    const uint16_t half = HalfScale(weights, random);
    std::memcpy(block.data() + field, &half, sizeof half);
  }
  if (type == WeightType::kBF16 || type == WeightType::kF32) {
    const uint16_t top = FloatTop(weights, random);
    std::memcpy(block.data() + block.size() - sizeof top, &top, sizeof top);
  }
  if (type == WeightType::kMXFP4 && weights != Weights::kExtreme) {
    block[0] = static_cast<std::byte>(124 + random() % 8);
  }
}

}  // namespace

TestMatrix::TestMatrix(WeightType type, uint32_t rows, uint32_t columns, Weights weights,
                       uint32_t seed)
    : row_bytes_(*RowBytes(type, columns)), source_(rows * row_bytes_) {
  std::mt19937 random(seed);
  const size_t block_bytes = Info(type).block_bytes;
  for (size_t at = 0; at < source_.size(); at += block_bytes) {
    FillBlock(type, weights, random, std::span(source_).subspan(at, block_bytes));
  }
  // Not at the record's start, and further apart than the groups are long, as in a record.
  part_ = {type, PartLayout::kRows16, rows, columns, 192, GroupBytes(type, columns) + 64};
  storage_.resize(64 + part_.offset + groups() * part_.stride);
  for (uint32_t group = 0; group < groups(); ++group) {
    PackGroup(type, columns, source_.data() + 16 * group * row_bytes_, row_bytes_,
              std::min(16U, rows - 16 * group),
              const_cast<std::byte*>(record()) + part_.offset + group * part_.stride);
  }
}

const std::byte* TestMatrix::record() const {
  const auto base = reinterpret_cast<uintptr_t>(storage_.data());
  return storage_.data() + (64 - base % 64) % 64;
}

std::span<const std::byte> TestMatrix::source_row(uint32_t row) const {
  return std::span(source_).subspan(row * row_bytes_, row_bytes_);
}

ActivationRows TestActivations(uint32_t columns, bool non_finite, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  ActivationRows rows;
  rows.Resize(8, columns);
  std::vector<float> values(columns);
  for (uint32_t row = 0; row < 8; ++row) {
    for (float& value : values) value = normal(random);
    const auto scale = [&](float factor) {
      for (float& value : values) value *= factor;
    };
    if (row == 1) std::fill(values.begin(), values.end(), 1.0f);
    if (row == 2) std::fill(values.begin(), values.end(), -1.0f);
    if (row == 3) values[columns / 2] = 1000.0f;
    if (row == 4) std::fill(values.begin() + std::min(32U, columns), values.end(), 0.0f);
    if (row == 5) scale(1e18f);
    if (row == 6) scale(1e-30f);
    if (row == 7) scale(1e-44f);
    if (non_finite) values[std::min(40U, columns - 1)] = std::numeric_limits<float>::infinity();
    rows.PutRow(row, values);
  }
  return rows;
}

}  // namespace moetier::kernels::test
