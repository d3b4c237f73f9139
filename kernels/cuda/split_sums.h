#ifndef MOETIER_KERNELS_CUDA_SPLIT_SUMS_H_
#define MOETIER_KERNELS_CUDA_SPLIT_SUMS_H_

#include <cstdint>

#include "kernels/cuda/rows16_floats.h"
#include "kernels/cuda/rows16_integers.h"

// One of the four running sums of a row's dots, for kTokens activation rows at once: all that one
// thread computes; and how the four become a dot. Device code, C++17.

namespace moetier::kernels::cuda {

inline constexpr uint32_t kSplits = 4;  // running sums of a dot

// How many blocks of threads a launch needs.
inline uint32_t TilesOf(uint32_t size, uint32_t tile) { return (size + tile - 1) / tile; }
inline uint32_t UnitsOf(uint32_t rows) { return TilesOf(rows, kUnitRows); }

// The dot of row `row` of a matrix, bias added where there is one.
__device__ __forceinline__ float DotOf(const float (&sums)[kSplits], const std::byte* record,
                                       uint64_t bias, uint32_t row) {
  const float dot = __fadd_rn(__fadd_rn(sums[0], sums[1]), __fadd_rn(sums[2], sums[3]));
  if (bias == kNoBias) return dot;
  return __fadd_rn(dot, reinterpret_cast<const float*>(record + bias)[row]);
}

// Columns of a matrix whose bytes of a group are at hand, from the first one's on. `begin` is a
// multiple of the dots' kPieceColumns.
struct ColumnRange {
  uint32_t begin;
  uint32_t end;
};

// About what a piece of a group has that is staged at once: several make 28 KB on the way a block.
inline constexpr uint32_t kPieceBytesAimed = 4608;

// Blocks split, split + 4, ... of row `row` of the group at `bytes`.
template <template <class> class Format>
struct IntegerDots {
  using Global = Format<const uint8_t*>;
  static constexpr uint32_t kPieceUnits =
      Global::kUnitBytes > kPieceBytesAimed ? 1 : kPieceBytesAimed / Global::kUnitBytes;
  static constexpr uint32_t kPieceBytes = kPieceUnits * Global::kUnitBytes;
  static constexpr uint32_t kPieceColumns = 32 * kPieceUnits * Global::kUnitBlocks;
  static_assert(kPieceUnits * Global::kUnitBlocks % kSplits == 0, "each sum has the same blocks");

  template <int kTokens, class Bytes>
  static __device__ __forceinline__ void Add(Bytes bytes, uint32_t row, uint32_t split,
                                             const PreparedRows& x, const ColumnRange& columns,
                                             const uint32_t (&tokens)[kTokens],
                                             float (&sums)[kTokens]) {
    const uint32_t begin = columns.begin / 32;
    for (uint32_t b = begin + split; 32 * b < columns.end; b += kSplits) {
      const Format<Bytes> block(bytes, row, b - begin);
      int32_t first[kTokens] = {};
      int32_t second[kTokens] = {};
      AddWords<0>(block, b, x, tokens, first);
      AddWords<4>(block, b, x, tokens, second);
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        const size_t at = size_t{tokens[t]} * x.blocks + b;
        const BlockActivation own = {
            x.scales[at], x.scaled_sums[at], {x.half_sums[2 * at], x.half_sums[2 * at + 1]}};
        sums[t] = block.Add(own, first[t] - Global::kOffset * own.half_sums[0],
                            second[t] - Global::kOffset * own.half_sums[1], sums[t]);
      }
    }
  }

 private:
  // Dots of words kFirst .. kFirst + 3: half a block.
  template <int kFirst, int kTokens, class Block>
  static __device__ __forceinline__ void AddWords(const Block& block, uint32_t b,
                                                  const PreparedRows& x,
                                                  const uint32_t (&tokens)[kTokens],
                                                  int32_t (&dots)[kTokens]) {
#pragma unroll
    for (int i = kFirst; i < kFirst + 4; ++i) {
      const auto codes = static_cast<int32_t>(block.Code(i));
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        const int8_t* own = x.codes + 32 * (size_t{tokens[t]} * x.blocks + b) + 4 * i;
        dots[t] = __dp4a(codes, *reinterpret_cast<const int32_t*>(own), dots[t]);
      }
    }
  }
};

// Pairs of columns split, split + 4, ...; of an odd number the last column alone.
template <class Format>
struct FloatDots {
  static constexpr uint32_t kPieceColumns =
      kPieceBytesAimed / (2 * kSplits * Format::kColumnBytes) * 2 * kSplits;
  static constexpr uint32_t kPieceBytes = kPieceColumns * Format::kColumnBytes;

  template <int kTokens, class Bytes>
  static __device__ __forceinline__ void Add(Bytes bytes, uint32_t row, uint32_t split,
                                             const PreparedRows& x, const ColumnRange& columns,
                                             const uint32_t (&tokens)[kTokens],
                                             float (&sums)[kTokens]) {
    const uint32_t begin = columns.begin / 2;
    for (uint32_t pair = begin + split; 2 * pair < columns.end; pair += kSplits) {
      const float first = Format::First(bytes, row, pair - begin);
      const bool whole = 2 * pair + 1 < columns.end;
      const float second = whole ? Format::Second(bytes, row, pair - begin) : 0.0f;
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        const float* own = x.values + 32 * size_t{tokens[t]} * x.blocks + 2 * pair;
        sums[t] = __fmaf_rn(first, own[0], sums[t]);
        if (whole) sums[t] = __fmaf_rn(second, own[1], sums[t]);
      }
    }
  }
};

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_SPLIT_SUMS_H_
