#include "kernels/activation_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/bytes.h"
#include "base/check.h"

namespace moetier::kernels {
namespace {

constexpr size_t kAlignment = 64;
constexpr uint32_t kMagnitude = 0x7FFFFFFF;
constexpr uint32_t kInfinity = 0x7F800000;
constexpr float kSmallest = 0x1p-100f;  // keeps 127 / m finite

struct QuantisedBlock {
  float scale;
  float scaled_sum;
  std::array<int32_t, 2> half_sums;
};

// Bits of the largest magnitude. Compared as integers: they order as the magnitudes do, with
// infinity and then NaN on top, and such a maximum vectorises.
uint32_t LargestMagnitude(const float* values) {
  uint32_t largest = 0;
  for (uint32_t i = 0; i < kActivationBlock; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(values[i]) & kMagnitude);
  }
  return largest;
}

// rint by adding 1.5 * 2^23, whose last bit is worth 1: the sum rounds to nearest even and its low
// bits are the integer. |x| <= 127 here. Plain adds vectorise on every processor.
int32_t RoundToInt(float x) {
  constexpr float kShift = 12582912.0f;
  return std::bit_cast<int32_t>(x + kShift) - std::bit_cast<int32_t>(kShift);
}

QuantisedBlock Quantise(const float* values, int8_t* codes) {
  const uint32_t largest = LargestMagnitude(values);
  if (largest >= kInfinity) {
    std::memset(codes, 0, kActivationBlock);
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    return {kNan, kNan, {0, 0}};
  }
  const float m = std::bit_cast<float>(largest);
  if (m < kSmallest) {
    std::memset(codes, 0, kActivationBlock);
    return {0.0f, 0.0f, {0, 0}};
  }
  const float inverse = 127.0f / m;
  QuantisedBlock block{m / 127.0f, 0.0f, {0, 0}};
  for (uint32_t half = 0; half < 2; ++half) {
    int32_t sum = 0;
    for (uint32_t i = 16 * half; i < 16 * half + 16; ++i) {
      const int32_t code = RoundToInt(values[i] * inverse);
      codes[i] = static_cast<int8_t>(code);
      sum += code;
    }
    block.half_sums[half] = sum;
  }
  block.scaled_sum = block.scale * static_cast<float>(block.half_sums[0] + block.half_sums[1]);
  return block;
}

// Where the planes of a row with `blocks` blocks start, and its length.
struct Planes {
  explicit Planes(size_t blocks)
      : codes(AlignUp(blocks * kActivationBlock * sizeof(float), kAlignment)),
        scales(codes + AlignUp(blocks * kActivationBlock, kAlignment)),
        scaled_sums(scales + AlignUp(blocks * sizeof(float), kAlignment)),
        half_sums(scaled_sums + AlignUp(blocks * sizeof(float), kAlignment)),
        bytes(half_sums + AlignUp(blocks * 2 * sizeof(int32_t), kAlignment)) {}
  size_t codes;
  size_t scales;
  size_t scaled_sums;
  size_t half_sums;
  size_t bytes;
};

}  // namespace

void ActivationRows::Resize(uint32_t rows, uint32_t columns) {
  rows_ = rows;
  columns_ = columns;
  blocks_ = columns / kActivationBlock + (columns % kActivationBlock != 0 ? 1 : 0);
  row_bytes_ = Planes(blocks_).bytes;
  const size_t needed = rows * row_bytes_ + kAlignment;
  if (storage_.size() < needed) storage_.resize(needed);
}

std::byte* ActivationRows::RowStart(uint32_t row) const {
  MOE_CHECK(row < rows_, "row {} of {}", row, rows_);
  const auto base = reinterpret_cast<uintptr_t>(storage_.data());
  return reinterpret_cast<std::byte*>(AlignUp(base, kAlignment) + row * row_bytes_);
}

void ActivationRows::PutBlock(uint32_t row, uint32_t block, std::span<const float> values) {
  MOE_CHECK(block < blocks_, "block {} of {}", block, blocks_);
  const uint32_t width = std::min(kActivationBlock, columns_ - block * kActivationBlock);
  MOE_CHECK(values.size() == width, "{} values for block {} of width {}", values.size(), block,
            width);
  std::byte* start = RowStart(row);
  const Planes planes(blocks_);
  float* kept = reinterpret_cast<float*>(start) + size_t{block} * kActivationBlock;
  std::memcpy(kept, values.data(), values.size_bytes());
  std::fill(kept + width, kept + kActivationBlock, 0.0f);
  const QuantisedBlock quantised = Quantise(
      kept, reinterpret_cast<int8_t*>(start + planes.codes) + size_t{block} * kActivationBlock);
  reinterpret_cast<float*>(start + planes.scales)[block] = quantised.scale;
  reinterpret_cast<float*>(start + planes.scaled_sums)[block] = quantised.scaled_sum;
  std::memcpy(reinterpret_cast<int32_t*>(start + planes.half_sums) + size_t{2} * block,
              quantised.half_sums.data(), sizeof quantised.half_sums);
}

void ActivationRows::PutRow(uint32_t row, std::span<const float> values) {
  MOE_CHECK(values.size() == columns_, "{} values for a row of {}", values.size(), columns_);
  for (uint32_t block = 0; block < blocks_; ++block) {
    const size_t first = size_t{block} * kActivationBlock;
    PutBlock(row, block,
             values.subspan(first, std::min<size_t>(kActivationBlock, columns_ - first)));
  }
}

ActivationRow ActivationRows::row(uint32_t row) const {
  const std::byte* start = RowStart(row);
  const Planes planes(blocks_);
  return {reinterpret_cast<const float*>(start),
          reinterpret_cast<const int8_t*>(start + planes.codes),
          reinterpret_cast<const float*>(start + planes.scales),
          reinterpret_cast<const float*>(start + planes.scaled_sums),
          reinterpret_cast<const int32_t*>(start + planes.half_sums)};
}

}  // namespace moetier::kernels
