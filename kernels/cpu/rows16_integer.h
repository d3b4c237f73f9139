#ifndef MOETIER_KERNELS_CPU_ROWS16_INTEGER_H_
#define MOETIER_KERNELS_CPU_ROWS16_INTEGER_H_

#include <cstdint>

#include "kernels/cpu/rows16_call.h"
#include "kernels/cpu/rows16_formats.h"
#include "kernels/cpu/rows16_prefetch.h"
#include "kernels/cpu/rows16_sums.h"

// The one loop of all integer weight types. Only for the files that are compiled for one
// instruction set: everything here is local to the file that includes it.

namespace moetier::kernels {
namespace {

// Dots of a group of 16 rows with kTokens activation rows; reads one ascending stream. The running
// sums stay in memory: a block comes back to its sum only four blocks later.
template <class V, class Format, int kTokens>
class IntegerPass {
 public:
  static __attribute__((noinline)) void Run(const Rows16Call& call, uint32_t group) {
    IntegerPass pass(call.tokens);
    pass.Start(call, group);
    const uint32_t blocks = call.columns / kActivationBlock;
    for (uint32_t block = 0; block < blocks; block += Format::kUnitBlocks) {
      Unit units[V::kParts];
      pass.Open(units, block / Format::kUnitBlocks);
      const uint32_t left = blocks - block;
      const uint32_t count = left < Format::kUnitBlocks ? left : Format::kUnitBlocks;
      for (uint32_t i = 0; i < count; i += Format::kBodyBlocks) {
        pass.Body(units, block, i);
      }
    }
    pass.sums_.Write(call.out + 16 * group, call.out_stride);
  }

 private:
  using Int = typename V::Int;
  using Float = typename V::Float;
  using Unit = typename Format::Unit;
  // One row of activations leaves registers for all parts of a group side by side, which share its
  // broadcasts; with more, the parts take turns.
  static constexpr int kSide = kTokens == 1 ? V::kParts : 1;
  static constexpr int kBodyBytes =
      Format::kBodyHeaderBytes + Format::kBodyBlocks * Format::kBlockBytes;

  MOETIER_ALWAYS_INLINE explicit IntegerPass(const ActivationRow* tokens) : tokens_(tokens) {}

  MOETIER_ALWAYS_INLINE void Start(const Rows16Call& call, uint32_t group) {
    at_ = call.groups + call.stride * group;
    sums_.Clear();
    ahead_.Enable(call.prefetch);
  }

  MOETIER_ALWAYS_INLINE void Open(Unit (&units)[V::kParts], uint32_t unit) {
    if constexpr (Format::kSharedHeader) {
      if (unit % 2 == 0) {
        shared_ = at_;
        ahead_.template Ask<64>(at_);
        at_ += 64;
      } else {
        shared_ += 32;
      }
    } else {
      shared_ = nullptr;
    }
    ahead_.template Ask<Format::kHeaderBytes>(at_);
    for (int part = 0; part < V::kParts; ++part) Format::Open(units[part], shared_, at_, part);
    at_ += Format::kHeaderBytes;
  }

  // Blocks `unit_block + i` and, in a body of two, the one after it.
  MOETIER_ALWAYS_INLINE void Body(const Unit (&units)[V::kParts], uint32_t unit_block, uint32_t i) {
    const uint8_t* const body = at_;
    ahead_.template Ask<kBodyBytes>(body);
    at_ += kBodyBytes;
    Unroll<Format::kBodyBlocks>([&]<int kBlock>() MOETIER_INLINE_LAMBDA {
      for (int part = 0; part < V::kParts; part += kSide) {
        if constexpr (Format::kStep == Step::kScaled || Format::kStep == Step::kScaledMinimum) {
          AddBlock<kBlock>(units, body, part, unit_block, i);
        } else {
          AddHalves<kBlock>(units, body, part, unit_block, i);
        }
      }
    });
  }

  // Lanes of an array: parts from `part` on.
  template <int kBlock>
  MOETIER_ALWAYS_INLINE void AddBlock(const Unit (&units)[V::kParts], const uint8_t* body, int part,
                                      uint32_t unit_block, uint32_t i) {
    const uint32_t block = unit_block + i + kBlock;
    Int dots[kSide][kTokens];
    Dots<kBlock, 0, 8>(body, part, block, dots);
    Float scales[kSide];
    Float minima[kSide];
    Unroll<kSide>([&]<int lane>() MOETIER_INLINE_LAMBDA {
      const int at = part + lane;
      const Unit& unit = units[at];
      scales[lane] = Format::Scale(unit, i + kBlock, at);
      if constexpr (Format::kStep == Step::kScaledMinimum) {
        minima[lane] = Format::Minimum(unit, i + kBlock);
      }
    });
    Unroll<kTokens>([&]<int t>() MOETIER_INLINE_LAMBDA {
      const Float xs = V::SplatFloat(tokens_[t].scales[block]);
      Unroll<kSide>([&]<int lane>() MOETIER_INLINE_LAMBDA {
        Float& a = sums_.At(block, part + lane, t);
        Float sum = V::MultiplyAdd(V::Multiply(scales[lane], xs), V::ToFloat(dots[lane][t]), a);
        if constexpr (Format::kStep == Step::kScaledMinimum) {
          sum = V::SubtractProduct(minima[lane], V::SplatFloat(tokens_[t].scaled_sums[block]), sum);
        }
        a = sum;
      });
    });
  }

  // Types whose scales cover 16 columns: two dots a block, joined as integers.
  template <int kBlock>
  MOETIER_ALWAYS_INLINE void AddHalves(const Unit (&units)[V::kParts], const uint8_t* body,
                                       int part, uint32_t unit_block, uint32_t i) {
    const uint32_t block = unit_block + i + kBlock;
    Int first[kSide][kTokens];
    Int second[kSide][kTokens];
    Dots<kBlock, 0, 4>(body, part, block, first);
    Dots<kBlock, 4, 4>(body, part, block, second);
    Unroll<kSide>([&]<int lane>() MOETIER_INLINE_LAMBDA {
      const int at = part + lane;
      const Unit& unit = units[at];
      const auto halves = Format::template Halves<kBlock>(unit, i + kBlock, body, at);
      Unroll<kTokens>([&]<int t>() MOETIER_INLINE_LAMBDA {
        const ActivationRow& x = tokens_[t];
        const Float xs = V::SplatFloat(x.scales[block]);
        Float& a = sums_.At(block, at, t);
        const Int joined = Format::Combine(halves, first[lane][t], second[lane][t]);
        Float sum = V::MultiplyAdd(V::Multiply(Format::Scale(unit, i + kBlock, at), xs),
                                   V::ToFloat(joined), a);
        if constexpr (Format::kStep == Step::kHalvesMinimum) {
          const int32_t* b = x.half_sums + 2 * block;
          const Int minimum = V::AddPairs(V::AddPairs(V::IntZero(), halves.first, V::Word(b)),
                                          halves.second, V::Word(b + 1));
          sum = V::SubtractProduct(V::Multiply(Format::Minimum(unit, i + kBlock), xs),
                                   V::ToFloat(minimum), sum);
        }
        a = sum;
      });
    });
  }

  // Integer dots of kWords words of a block, from word kFirst on, offset of the codes included.
  template <int kBlock, int kFirst, int kWords>
  MOETIER_ALWAYS_INLINE void Dots(const uint8_t* body, int part, uint32_t block,
                                  Int (&out)[kSide][kTokens]) {
    typename V::template Dot<Format::kFit> dots[kSide][kTokens];
    Unroll<kTokens>([&]<int t>() MOETIER_INLINE_LAMBDA {
      const Int start = OffsetSum<kFirst, kWords>(tokens_[t].half_sums + 2 * block);
      Unroll<kSide>([&]<int lane>() MOETIER_INLINE_LAMBDA { dots[lane][t].Start(start); });
    });
    Unroll<kWords>([&]<int kWord>() MOETIER_INLINE_LAMBDA {
      Int codes[kSide];
      Unroll<kSide>([&]<int lane>() MOETIER_INLINE_LAMBDA {
        codes[lane] = Format::template Codes<kFirst + kWord>(
            body + Format::kBodyHeaderBytes + kBlock * Format::kBlockBytes, part + lane);
      });
      Unroll<kTokens>([&]<int t>() MOETIER_INLINE_LAMBDA {
        const Int x = V::Word(tokens_[t].codes + kActivationBlock * block + 4 * (kFirst + kWord));
        Unroll<kSide>([&]<int lane>() MOETIER_INLINE_LAMBDA {
          if constexpr (Format::kXoredBytes) {
            dots[lane][t].template AddBytes<kWord>(codes[lane], x);
          } else {
            dots[lane][t].template Add<kWord>(codes[lane], x);
          }
        });
      });
    });
    Unroll<kSide>([&]<int lane>() MOETIER_INLINE_LAMBDA {
      Unroll<kTokens>([&]<int t>()
                          MOETIER_INLINE_LAMBDA { out[lane][t] = dots[lane][t].Finish(); });
    });
  }

  // kOffset times the sum of the activation codes under the words: a half's sum fits 16 bits.
  template <int kFirst, int kWords>
  static MOETIER_ALWAYS_INLINE Int OffsetSum(const int32_t* half_sums) {
    if constexpr (Format::kOffset == 0) {
      return V::IntZero();
    } else {
      const Int offset = V::Splat(Format::kOffset & 0xFFFF);
      Int sum = V::AddPairs(V::IntZero(), V::Word(half_sums + kFirst / 4), offset);
      if constexpr (kWords == 8) {
        sum = V::AddPairs(sum, V::Word(half_sums + 1), offset);
      }
      return sum;
    }
  }

  const ActivationRow* tokens_;
  const uint8_t* at_;
  const uint8_t* shared_;  // the half line of two units' common header
  Ahead ahead_;
  Sums<V, kTokens> sums_;
};

}  // namespace
}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_CPU_ROWS16_INTEGER_H_
