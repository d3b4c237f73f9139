#ifndef MOETIER_KERNELS_CPU_ROWS16_FLOAT_H_
#define MOETIER_KERNELS_CPU_ROWS16_FLOAT_H_

#include <cstdint>

#include "kernels/cpu/rows16_call.h"
#include "kernels/cpu/rows16_formats.h"
#include "kernels/cpu/rows16_prefetch.h"
#include "kernels/cpu/rows16_sums.h"

// The one loop of the float weight types. Only for the files that are compiled for one instruction
// set: everything here is local to the file that includes it.

namespace moetier::kernels {
namespace {

// Two columns a line, the first in the low half of each row's word.
template <class V>
struct FormatBf16 {
  static constexpr int kPairBytes = 64;
  static MOETIER_ALWAYS_INLINE void Pair(const uint8_t* pair, int part, typename V::Float& first,
                                         typename V::Float& second) {
    const typename V::Int words = V::Line(pair, part);
    first = V::AsFloat(V::template Shift<16>(words));
    second = V::AsFloat(V::And(words, V::Splat(static_cast<int32_t>(0xFFFF0000U))));
  }
  static MOETIER_ALWAYS_INLINE typename V::Float Single(const uint8_t* pair, int part) {
    return V::AsFloat(V::template Shift<16>(V::Line(pair, part)));
  }
};

template <class V>
struct FormatF16 {
  static constexpr int kPairBytes = 64;
  static MOETIER_ALWAYS_INLINE void Pair(const uint8_t* pair, int part, typename V::Float& first,
                                         typename V::Float& second) {
    V::HalvesToFloat(V::Line(pair, part), first, second);
  }
  static MOETIER_ALWAYS_INLINE typename V::Float Single(const uint8_t* pair, int part) {
    typename V::Float first, second;
    Pair(pair, part, first, second);
    return first;
  }
};

// One column a line.
template <class V>
struct FormatF32 {
  static constexpr int kPairBytes = 128;
  static MOETIER_ALWAYS_INLINE void Pair(const uint8_t* pair, int part, typename V::Float& first,
                                         typename V::Float& second) {
    first = V::AsFloat(V::Line(pair, part));
    second = V::AsFloat(V::Line(pair + 64, part));
  }
  static MOETIER_ALWAYS_INLINE typename V::Float Single(const uint8_t* pair, int part) {
    return V::AsFloat(V::Line(pair, part));
  }
};

// Dots of a group of 16 rows with kTokens activation rows; reads one ascending stream. Pairs of
// columns go round the four running sums; eight columns are one turn of the loop.
template <class V, class Format, int kTokens>
class FloatPass {
 public:
  static __attribute__((noinline)) void Run(const Rows16Call& call, uint32_t group) {
    const ActivationRow* tokens = call.tokens;
    Ahead ahead;
    ahead.Enable(call.prefetch);
    const uint8_t* at = call.groups + call.stride * group;
    RunningSums sums;
    sums.Clear();
    uint32_t column = 0;
    for (; column + 8 <= call.columns; column += 8) {
      ahead.template Ask<4 * Format::kPairBytes>(at);
      Unroll<4>([&]<int kPair>() MOETIER_INLINE_LAMBDA {
        AddPair<kPair>(at, tokens, column + 2 * kPair, sums);
      });
      at += 4 * Format::kPairBytes;
    }
    Unroll<4>([&]<int kPair>() MOETIER_INLINE_LAMBDA {
      if (column + 2 * kPair + 2 <= call.columns) {
        AddPair<kPair>(at, tokens, column + 2 * kPair, sums);
      } else if (column + 2 * kPair < call.columns) {
        AddLast<kPair>(at, tokens, column + 2 * kPair, sums);
      }
    });
    sums.Write(call.out + 16 * group, call.out_stride);
  }

 private:
  using Float = typename V::Float;
  using RunningSums = Sums<V, kTokens>;

  template <int kPair>
  static MOETIER_ALWAYS_INLINE void AddPair(const uint8_t* at, const ActivationRow* tokens,
                                            uint32_t column, RunningSums& sums) {
    for (int part = 0; part < V::kParts; ++part) {
      Float first, second;
      Format::Pair(at + kPair * Format::kPairBytes, part, first, second);
      Unroll<kTokens>([&]<int t>() MOETIER_INLINE_LAMBDA {
        const Float x0 = V::SplatFloat(tokens[t].values[column]);
        const Float x1 = V::SplatFloat(tokens[t].values[column + 1]);
        Float& a = sums.At(kPair, part, t);
        a = V::MultiplyAdd(second, x1, V::MultiplyAdd(first, x0, a));
      });
    }
  }

  // The last column of an odd number: nothing may be added for the column that is not there.
  template <int kPair>
  static MOETIER_ALWAYS_INLINE void AddLast(const uint8_t* at, const ActivationRow* tokens,
                                            uint32_t column, RunningSums& sums) {
    for (int part = 0; part < V::kParts; ++part) {
      const Float weights = Format::Single(at + kPair * Format::kPairBytes, part);
      Unroll<kTokens>([&]<int t>() MOETIER_INLINE_LAMBDA {
        Float& a = sums.At(kPair, part, t);
        a = V::MultiplyAdd(weights, V::SplatFloat(tokens[t].values[column]), a);
      });
    }
  }
};

}  // namespace
}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_CPU_ROWS16_FLOAT_H_
