#include "kernels/activation_rows.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "kernels/cpu/elementwise.h"

namespace moetier::kernels {
namespace {

constexpr size_t kAlignment = 64;
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

// The same planes of one row, to write into.
struct WritableRow {
  WritableRow(std::byte* start, size_t blocks) : WritableRow(start, Planes(blocks)) {}
  WritableRow(std::byte* start, const Planes& planes)
      : values(reinterpret_cast<float*>(start)),
        codes(reinterpret_cast<int8_t*>(start + planes.codes)),
        scales(reinterpret_cast<float*>(start + planes.scales)),
        scaled_sums(reinterpret_cast<float*>(start + planes.scaled_sums)),
        half_sums(reinterpret_cast<int32_t*>(start + planes.half_sums)) {}

  void Put(size_t block, const float* from, size_t width, ElementwiseCode code) const {
    float* kept = values + block * kActivationBlock;
    if (width == kActivationBlock) {
      std::memcpy(kept, from, kActivationBlock * sizeof(float));
    } else {
      std::copy_n(from, width, kept);
      std::fill(kept + width, kept + kActivationBlock, 0.0f);
      from = kept;
    }
    // A whole block is read where it came from: a wide load of the copy would wait for its stores.
    const QuantisedBlock quantised = QuantiseBlock(code, from, codes + block * kActivationBlock);
    scales[block] = quantised.scale;
    scaled_sums[block] = quantised.scaled_sum;
    half_sums[2 * block] = quantised.half_sums[0];
    half_sums[2 * block + 1] = quantised.half_sums[1];
  }

  float* values;
  int8_t* codes;
  float* scales;
  float* scaled_sums;
  int32_t* half_sums;
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
  WritableRow(RowStart(row), blocks_).Put(block, values.data(), width, BestElementwiseCode());
}

void ActivationRows::PutRow(uint32_t row, std::span<const float> values) {
  MOE_CHECK(values.size() == columns_, "{} values for a row of {}", values.size(), columns_);
  const WritableRow writable(RowStart(row), blocks_);
  const ElementwiseCode code = BestElementwiseCode();
  for (size_t block = 0; block < blocks_; ++block) {
    const size_t first = block * kActivationBlock;
    const size_t width = std::min<size_t>(kActivationBlock, columns_ - first);
    writable.Put(block, values.data() + first, width, code);
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
