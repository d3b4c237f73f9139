#ifndef MOETIER_KERNELS_CUDA_INTEGER_TILE_H_
#define MOETIER_KERNELS_CUDA_INTEGER_TILE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/integer_mma.h"
#include "kernels/cuda/prefill_parts.h"

// The tile of an integer weight type: one of the four running sums of 32 rows' dots with up to 64
// tokens, all that one warp of a prefill kernel adds up. The dot of 32 (or 16) columns is an exact
// integer, so a tensor core may compute it; what follows, block after block, is the decode kernels'
// f32 step on the same integer. Device code, C++17.
//
// The lanes (g = lane / 4, t = lane % 4) have rows g and g + 8 of each of two groups and tokens 2t
// and 2t + 1 of each eight. A dot does not care which columns are called first, so a lane takes
// those words of a block that lie together: 2t and 2t + 1 are one word of a nibble line.

namespace moetier::kernels::cuda {

inline constexpr uint32_t kStepTokens = 8;  // of one step of a tensor core

// Formats whose blocks have a scale for each half of 16 columns: the halves' dots stay apart.
template <class Format>
inline constexpr bool kScaledHalves = false;
template <>
inline constexpr bool kScaledHalves<Q6K<const uint8_t*>> = true;
template <>
inline constexpr bool kScaledHalves<Q2K<const uint8_t*>> = true;
template <>
inline constexpr bool kScaledHalves<Q3K<const uint8_t*>> = true;

// Formats whose step reads BlockActivation::half_sums.
template <class Format>
inline constexpr bool kReadsHalfSums = false;
template <>
inline constexpr bool kReadsHalfSums<Q2K<const uint8_t*>> = true;

// Tokens of a tile: a multiple of 16, and what 128 registers a thread leave room for.
template <class Format>
inline constexpr uint32_t kTileTokens = 64;
template <>
inline constexpr uint32_t kTileTokens<Q2K<const uint8_t*>> = 48;

// 32-bit words of a block's scales, which stand at the front of a format.
template <class Format>
inline constexpr uint32_t kScaleWords = kScaledHalves<Format> ? 3 : 1;
template <>
inline constexpr uint32_t kScaleWords<Q4K<const uint8_t*>> = 2;
template <>
inline constexpr uint32_t kScaleWords<Q5K<const uint8_t*>> = 2;

// The running sums of one lane: [step][group][as PTX has the lane's four of a tile].
template <class Format>
using LaneSums = float[kTileTokens<Format> / kStepTokens][2][4];

// In shared memory: four blocks of 32 columns of all tokens, one for each running sum.
template <uint32_t kTokens>
struct StagedCodes {
  alignas(16) uint32_t codes[kSplits][kTokens][8];
  alignas(16) float scales[kSplits][kTokens][2];  // scale, scaled sum
};
template <uint32_t kTokens>
struct StagedHalfSums {
  alignas(16) int32_t half_sums[kSplits][kTokens][2];
};
struct NoHalfSums {};
template <class Format>
struct Stage
    : StagedCodes<kTileTokens<Format>>,
      std::conditional_t<kReadsHalfSums<Format>, StagedHalfSums<kTileTokens<Format>>, NoHalfSums> {
};

// Copies the tokens' blocks into stages, asynchronously; one for each thread of the block. A thread
// has half a block of two tokens.
template <class Format>
class StageCopier {
 public:
  // `row_of` gives the row in `x` of tokens 0 .. count - 1.
  template <class RowOf>
  __device__ StageCopier(const PreparedRows& x, uint32_t count, RowOf row_of) : x_(x) {
    for (uint32_t i = 0; i < 2; ++i) {
      blocks_of_[i] = Token(i) < count ? row_of(Token(i)) * x.blocks : kNoToken;
    }
  }

  // Blocks 4 * stage .. 4 * stage + 3, as far as there are any.
  __device__ void Copy(uint32_t stage, Stage<Format>& to) const {
    const uint32_t split = threadIdx.x % kPieces / 2;
    const uint32_t half = threadIdx.x % 2;
    const uint32_t block = kSplits * stage + split;
    if (block >= x_.blocks) return;
    for (uint32_t i = 0; i < 2; ++i) {
      if (blocks_of_[i] == kNoToken) continue;
      const size_t at = blocks_of_[i] + block;
      __pipeline_memcpy_async(&to.codes[split][Token(i)][4 * half], x_.codes + 32 * at + 16 * half,
                              16);
      __pipeline_memcpy_async(&to.scales[split][Token(i)][half],
                              (half == 0 ? x_.scales : x_.scaled_sums) + at, 4);
      if constexpr (kReadsHalfSums<Format>) {
        __pipeline_memcpy_async(&to.half_sums[split][Token(i)][half], x_.half_sums + 2 * at + half,
                                4);
      }
    }
  }

 private:
  static constexpr uint32_t kPieces = 2 * kSplits;  // of a token in a stage
  static constexpr uint32_t kNoToken = 0xFFFFFFFF;
  static_assert(2 * kTileThreads >= kTileTokens<Format> * kPieces);

  static __device__ __forceinline__ uint32_t Token(uint32_t i) {
    return threadIdx.x / kPieces + i * (kTileThreads / kPieces);
  }

  const PreparedRows& x_;
  uint32_t blocks_of_[2];  // first one of the row, counted over all rows
};

// Four codes without what they are too large by, each a signed byte. They are below 128 before.
template <int kOffset>
__device__ __forceinline__ uint32_t SignedCodes(uint32_t codes) {
  if constexpr (kOffset == 0) return codes;
  return ((codes | 0x80808080U) - kOffset * 0x01010101U) ^ 0x80808080U;
}

// One block of 32 columns of this lane's four rows. Each byte of codes of the warp's 32 rows is
// loaded by one lane, or by two that want other bits of the same word. The four lanes that share
// rows read the scales of one each and pass them round.
template <class Format>
class RowBlocks {
 public:
  __device__ RowBlocks(const GroupPair& groups, uint32_t b)
      : RowBlocks(groups, b, Format(groups.At(Member() / 2), Row() + 8 * (Member() % 2), b)) {}

  // Asks for block b of the same rows.
  static __device__ __forceinline__ void Prefetch(const GroupPair& groups, uint32_t b) {
    for (uint32_t i = 0; i < 2; ++i) {
      PrefetchToL2(Format(groups.At(i), Row(), b).codes + 64 * Member());
    }
  }

  Format rows[2][2];     // their scales alone
  uint32_t codes[2][4];  // of each group, as PTX has the first operand

 private:
  static constexpr uint32_t kWords = kScaleWords<Format>;
  static_assert(offsetof(Format, codes) / 8 == (kWords + 1) / 2, "the scales stand in front");

  __device__ RowBlocks(const GroupPair& groups, uint32_t b, const Format& own)
      : rows{{own, own}, {own, own}} {
    const int t = static_cast<int>(Member());
    const int first = kScaledHalves<Format> ? t : 2 * t;
    const int second = kScaledHalves<Format> ? t + 4 : 2 * t + 1;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const Format row(groups.At(i / 2), Row() + 8 * (i % 2), b);
      codes[i / 2][i % 2] = SignedCodes<Format::kOffset>(row.Code(first));
      codes[i / 2][i % 2 + 2] = SignedCodes<Format::kOffset>(row.Code(second));
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      uint32_t words[kWords];
      memcpy(words, &own, sizeof words);
      for (uint32_t& word : words) {
        word = __shfl_sync(kAllLanes, word, static_cast<int>(4 * Row() + i));
      }
      memcpy(static_cast<void*>(&rows[i / 2][i % 2]), words, sizeof words);
    }
  }

  static __device__ __forceinline__ uint32_t Row() { return threadIdx.x % 32 / 4; }
  static __device__ __forceinline__ uint32_t Member() { return threadIdx.x % 4; }
};

// Adds this block's dots of eight tokens to the lane's sums of them.
template <class Format>
__device__ __forceinline__ void AddStep(const RowBlocks<Format>& weights,
                                        const Stage<Format>& stage, uint32_t split, uint32_t step,
                                        float (&sums)[2][4]) {
  const uint32_t t = threadIdx.x % 4;
  const uint32_t own = kStepTokens * step + 2 * t;
  const auto scales = *reinterpret_cast<const float4*>(stage.scales[split][own]);
  BlockActivation x[2] = {{scales.x, scales.y, {0, 0}}, {scales.z, scales.w, {0, 0}}};
  if constexpr (kReadsHalfSums<Format>) {
    const auto halves = *reinterpret_cast<const int4*>(stage.half_sums[split][own]);
    x[0].half_sums[0] = halves.x;
    x[0].half_sums[1] = halves.y;
    x[1].half_sums[0] = halves.z;
    x[1].half_sums[1] = halves.w;
  }
  const uint32_t* codes = stage.codes[split][kStepTokens * step + threadIdx.x % 32 / 4];
  // The dots start where FloatOfSmall lifts them to, which saves that addition.
  constexpr int32_t kStart = kRoundShiftBits;
#pragma unroll
  for (int group = 0; group < 2; ++group) {
    const uint32_t(&a)[4] = weights.codes[group];
    int32_t first[4] = {kStart, kStart, kStart, kStart};
    int32_t second[4] = {kStart, kStart, kStart, kStart};
    if constexpr (kScaledHalves<Format>) {
      MultiplyBytes16(first, {a[0], a[1]}, {codes[t]});
      MultiplyBytes16(second, {a[2], a[3]}, {codes[t + 4]});
    } else {
      const auto b = *reinterpret_cast<const uint2*>(codes + 2 * t);
      MultiplyBytes32(first, a, {b.x, b.y});
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[group][i] = weights.rows[group][i / 2].Add(x[i % 2], first[i] - kStart,
                                                      second[i] - kStart, sums[group][i]);
    }
  }
}

// Blocks split, split + 4, ... of the two groups. By the whole thread block: the activations pass
// through the two stages at `stages`, one being filled while the other is read. Ends with both
// read.
template <class Format>
__device__ __forceinline__ void AddBlocks(const GroupPair& groups,
                                          const StageCopier<Format>& copier, uint32_t blocks,
                                          uint32_t count, uint32_t split, Stage<Format>* stages,
                                          LaneSums<Format>& sums) {
  copier.Copy(0, stages[0]);
  __pipeline_commit();
#pragma unroll 1
  for (uint32_t stage = 0; kSplits * stage < blocks; ++stage) {
    // A last stage may have no block for this sum: what is read in its place is not used.
    const uint32_t b = kSplits * stage + split;
    const RowBlocks<Format> weights(groups, b < blocks ? b : blocks - 1);
    if (b + kSplits < blocks) RowBlocks<Format>::Prefetch(groups, b + kSplits);
    __pipeline_wait_prior(0);
    __syncthreads();
    if (kSplits * (stage + 1) < blocks) copier.Copy(stage + 1, stages[(stage + 1) % 2]);
    __pipeline_commit();
    if (b >= blocks) continue;
#pragma unroll
    for (uint32_t step = 0; step < kTileTokens<Format> / kStepTokens; ++step) {
      if (kStepTokens * step < count) {
        AddStep<Format>(weights, stages[stage % 2], split, step, sums[step]);
      }
    }
  }
  __syncthreads();
}

template <class Format>
struct IntegerTile {
  static constexpr uint32_t kTokens = kTileTokens<Format>;
  static constexpr size_t kStageBytes = 2 * sizeof(Stage<Format>);
  using Sums = LaneSums<Format>;

  template <class RowOf>
  static __device__ __forceinline__ void Add(const GroupPair& groups, const PreparedRows& x,
                                             uint32_t count, RowOf row_of, unsigned char* shared,
                                             Sums& sums) {
    AddBlocks<Format>(groups, StageCopier<Format>(x, count, row_of), x.blocks, count,
                      threadIdx.x / 32 % kSplits, reinterpret_cast<Stage<Format>*>(shared), sums);
  }

  static __device__ __forceinline__ void Put(const Sums& sums, uint32_t chunk, WarpSums& own) {
    constexpr uint32_t kSteps = kSumTokens / kStepTokens;
    const uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (uint32_t step = 0; step < kSteps; ++step) {
#pragma unroll
      for (uint32_t i = 0; i < 8; ++i) {
        const uint32_t token = kStepTokens * step + lane % 4 * 2 + i % 2;
        own[token][16 * (i / 4) + lane / 4 + 8 * (i / 2 % 2)] =
            sums[kSteps * chunk + step][i / 4][i % 4];
      }
    }
  }
};

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_INTEGER_TILE_H_
