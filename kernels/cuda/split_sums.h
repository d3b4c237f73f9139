#ifndef MOETIER_KERNELS_CUDA_SPLIT_SUMS_H_
#define MOETIER_KERNELS_CUDA_SPLIT_SUMS_H_

#include <cstdint>

#include "kernels/cuda/rows16_floats.h"
#include "kernels/cuda/rows16_integers.h"

// One of the four running sums of a row's dots, for kTokens activation rows at once: all that one
// thread computes. Device code, C++17.

namespace moetier::kernels::cuda {

inline constexpr uint32_t kSplits = 4;  // running sums of a dot

// Blocks split, split + 4, ... of row `row` of `group`.
template <class Format>
struct IntegerDots {
  template <int kTokens>
  static __device__ __forceinline__ void Add(const uint8_t* group, uint32_t row, uint32_t split,
                                             const PreparedRows& x,
                                             const uint32_t (&tokens)[kTokens],
                                             float (&sums)[kTokens]) {
    for (uint32_t b = split; b < x.blocks; b += kSplits) {
      const Format block(group, row, b);
      int32_t first[kTokens] = {};
      int32_t second[kTokens] = {};
      AddWords<0>(block, b, x, tokens, first);
      AddWords<4>(block, b, x, tokens, second);
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        const size_t at = size_t{tokens[t]} * x.blocks + b;
        const BlockActivation own = {
            x.scales[at], x.scaled_sums[at], {x.half_sums[2 * at], x.half_sums[2 * at + 1]}};
        sums[t] = block.Add(own, first[t] - Format::kOffset * own.half_sums[0],
                            second[t] - Format::kOffset * own.half_sums[1], sums[t]);
      }
    }
  }

 private:
  // Dots of words kFirst .. kFirst + 3: half a block.
  template <int kFirst, int kTokens>
  static __device__ __forceinline__ void AddWords(const Format& block, uint32_t b,
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
  template <int kTokens>
  static __device__ __forceinline__ void Add(const uint8_t* group, uint32_t row, uint32_t split,
                                             const PreparedRows& x,
                                             const uint32_t (&tokens)[kTokens],
                                             float (&sums)[kTokens]) {
    for (uint32_t pair = split; 2 * pair < x.columns; pair += kSplits) {
      const float first = Format::First(group, row, pair);
      const bool whole = 2 * pair + 1 < x.columns;
      const float second = whole ? Format::Second(group, row, pair) : 0.0f;
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
