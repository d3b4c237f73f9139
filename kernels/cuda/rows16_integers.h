#ifndef MOETIER_KERNELS_CUDA_ROWS16_INTEGERS_H_
#define MOETIER_KERNELS_CUDA_ROWS16_INTEGERS_H_

#include <cstdint>

#include "kernels/cuda/device_math.h"

// The integer weight types' rows16 bytes (byte maps: ARCHITECTURE.md, "Records") as one thread
// reads them: one row, one block of 32 columns. A format's constructor finds block `b` of row
// `row` (0..15) of a group; Code(i) is word i of its codes, four signed bytes that are kOffset too
// large; Add takes the exact dots of the two halves of 16, offset removed, to the running sum.
// Device code, C++17.

namespace moetier::kernels::cuda {

// Bytes in shared memory. A type of its own, since loads through the read-only cache cannot read
// it.
struct StagedBytes {
  const uint8_t* at;
  template <class Offset>
  __device__ StagedBytes operator+(Offset bytes) const {
    return {at + bytes};
  }
};

__device__ __forceinline__ uint32_t Word(const uint8_t* at) {
  return __ldg(reinterpret_cast<const uint32_t*>(at));
}
__device__ __forceinline__ uint32_t Word(StagedBytes from) {
  return *reinterpret_cast<const uint32_t*>(from.at);
}
__device__ __forceinline__ uint32_t Byte(const uint8_t* at) { return __ldg(at); }
__device__ __forceinline__ uint32_t Byte(StagedBytes from) { return *from.at; }
__device__ __forceinline__ float Half(const uint8_t* at) {
  return HalfToFloat(__ldg(reinterpret_cast<const uint16_t*>(at)));
}
__device__ __forceinline__ float Half(StagedBytes from) {
  return HalfToFloat(*reinterpret_cast<const uint16_t*>(from.at));
}

// What belongs to one block of one activation row.
struct BlockActivation {
  float scale;
  float scaled_sum;
  int32_t half_sums[2];
};

// Word `i` of four lines that hold words 2j and 2j + 1 in the low and high nibbles of line j.
template <class Bytes>
__device__ __forceinline__ uint32_t NibbleWord(Bytes lines, int i) {
  return Word(lines + 64 * (i / 2)) >> (4 * (i % 2)) & 0x0F0F0F0FU;
}
// Two bits of word `i` from two lines, in each byte's bits 0 and 1.
template <class Bytes>
__device__ __forceinline__ uint32_t PairWord(Bytes lines, int i) {
  return Word(lines + 64 * (i / 4)) >> (2 * (i % 4)) & 0x03030303U;
}
// One bit of word `i` from one line, in each byte's bit 0.
template <class Bytes>
__device__ __forceinline__ uint32_t BitWord(Bytes line, int i) {
  return Word(line) >> i & 0x01010101U;
}
// Field 0..15 of three lines of six-bit fields.
template <class Bytes>
__device__ __forceinline__ int32_t SixBits(Bytes lines, uint32_t field) {
  if (field == 15) {
    return static_cast<int32_t>(Word(lines) >> 30 | Word(lines + 64) >> 30 << 2 |
                                Word(lines + 128) >> 30 << 4);
  }
  return static_cast<int32_t>(Word(lines + 64 * (field / 5)) >> (6 * (field % 5)) & 63);
}

// a = fma(scale * xs, I, a)
__device__ __forceinline__ float AddScaled(float scale, const BlockActivation& x, float dot,
                                           float a) {
  return __fmaf_rn(__fmul_rn(scale, x.scale), dot, a);
}

// sc0 * I0 + sc1 * I1 of a block's halves. Exact, since it stays below 2^24 for every type.
__device__ __forceinline__ float JoinHalves(float first_scale, int32_t first, float second_scale,
                                            int32_t second) {
  return __fmaf_rn(second_scale, FloatOfSmall(second), __fmul_rn(first_scale, FloatOfSmall(first)));
}

template <class Bytes>
struct Q4_0 {
  static constexpr int kOffset = 8;
  static constexpr uint32_t kUnitBlocks = 2;
  static constexpr uint32_t kUnitBytes = 64 + 2 * 256;
  __device__ Q4_0(Bytes group, uint32_t row, uint32_t b) {
    const Bytes unit = group + size_t{b / kUnitBlocks} * kUnitBytes;
    scale = Half(unit + 32 * (b % 2) + 2 * row);
    codes = unit + 64 + 256 * (b % 2) + 4 * row;
  }
  __device__ uint32_t Code(int i) const { return NibbleWord(codes, i); }
  __device__ float Add(const BlockActivation& x, int32_t first, int32_t second, float a) const {
    return AddScaled(scale, x, FloatOfSmall(first + second), a);
  }
  float scale;
  Bytes codes;
};

template <class Bytes>
struct Q8_0 {
  static constexpr int kOffset = 0;
  static constexpr uint32_t kUnitBlocks = 2;
  static constexpr uint32_t kUnitBytes = 64 + 2 * 512;
  __device__ Q8_0(Bytes group, uint32_t row, uint32_t b) {
    const Bytes unit = group + size_t{b / kUnitBlocks} * kUnitBytes;
    scale = Half(unit + 32 * (b % 2) + 2 * row);
    codes = unit + 64 + 512 * (b % 2) + 4 * row;
  }
  __device__ uint32_t Code(int i) const { return Word(codes + 64 * i) ^ 0x80808080U; }
  __device__ float Add(const BlockActivation& x, int32_t first, int32_t second, float a) const {
    return AddScaled(scale, x, FloatOfSmall(first + second), a);
  }
  float scale;
  Bytes codes;
};

template <class Bytes>
struct Mxfp4 {
  static constexpr int kOffset = 12;
  static constexpr uint32_t kUnitBlocks = 4;
  static constexpr uint32_t kUnitBytes = 64 + 4 * 256;
  __device__ Mxfp4(Bytes group, uint32_t row, uint32_t b) {
    const Bytes unit = group + size_t{b / kUnitBlocks} * kUnitBytes;
    scale = ExponentScale(Byte(unit + 16 * (b % 4) + row));
    codes = unit + 64 + 256 * (b % 4) + 4 * row;
  }
  // Twelve more than 0 1 2 3 4 6 8 12 and their negatives, looked up by each byte's low three bits
  // in both tables and chosen by bit 3.
  __device__ uint32_t Code(int i) const {
    const uint32_t nibbles = NibbleWord(codes, i);
    const uint32_t index =
        (nibbles & 7) | (nibbles >> 4 & 0x70) | (nibbles >> 8 & 0x700) | (nibbles >> 12 & 0x7000);
    const uint32_t positive = __byte_perm(0x0F0E0D0C, 0x18141210, index);
    const uint32_t negative = __byte_perm(0x090A0B0C, 0x00040608, index);
    const uint32_t mask = (nibbles >> 3 & 0x01010101U) * 0xFF;
    return (positive & ~mask) | (negative & mask);
  }
  __device__ float Add(const BlockActivation& x, int32_t first, int32_t second, float a) const {
    return AddScaled(scale, x, FloatOfSmall(first + second), a);
  }
  float scale;
  Bytes codes;
};

// Q4_K and Q5_K: d, dmin; six-bit scales and minima; the code lines of eight blocks.
template <class Bytes, uint32_t kBlockBytes>
struct ScaleMinimum {
  static constexpr int kOffset = 0;
  static constexpr uint32_t kUnitBlocks = 8;
  static constexpr uint32_t kUnitBytes = 256 + 8 * kBlockBytes;
  __device__ ScaleMinimum(Bytes group, uint32_t row, uint32_t b) {
    const Bytes unit = group + size_t{b / kUnitBlocks} * kUnitBytes;
    const uint32_t s = b % 8;
    scale = __fmul_rn(Half(unit + 2 * row), FloatOf(SixBits(unit + 64 + 4 * row, 2 * s)));
    minimum =
        __fmul_rn(Half(unit + 32 + 2 * row), FloatOf(SixBits(unit + 64 + 4 * row, 2 * s + 1)));
    codes = unit + 256 + kBlockBytes * s + 4 * row;
  }
  __device__ float Add(const BlockActivation& x, int32_t first, int32_t second, float a) const {
    return __fmaf_rn(-minimum, x.scaled_sum, AddScaled(scale, x, FloatOfSmall(first + second), a));
  }
  float scale;
  float minimum;
  Bytes codes;
};

template <class Bytes>
struct Q4K : ScaleMinimum<Bytes, 256> {
  using ScaleMinimum<Bytes, 256>::ScaleMinimum;
  using ScaleMinimum<Bytes, 256>::codes;
  __device__ uint32_t Code(int i) const { return NibbleWord(codes, i); }
};

template <class Bytes>
struct Q5K : ScaleMinimum<Bytes, 320> {
  using ScaleMinimum<Bytes, 320>::ScaleMinimum;
  using ScaleMinimum<Bytes, 320>::codes;
  __device__ uint32_t Code(int i) const {
    return NibbleWord(codes + 64, i) | BitWord(codes, i) << 4;
  }
};

template <class Bytes>
struct Q6K {
  static constexpr int kOffset = 32;
  static constexpr uint32_t kScaleBytes = 64 + 2 * 384;     // a scale line and two blocks
  static constexpr uint32_t kSuperBytes = 4 * kScaleBytes;  // of 256 columns
  static constexpr uint32_t kUnitBlocks = 16;
  static constexpr uint32_t kUnitBytes = 64 + 2 * kSuperBytes;
  __device__ Q6K(Bytes group, uint32_t row, uint32_t b) {
    const uint32_t super = b / 8;
    const Bytes unit = group + size_t{b / kUnitBlocks} * kUnitBytes;
    const Bytes body = unit + 64 + kSuperBytes * (super % 2) + kScaleBytes * (b % 8 / 2);
    d = Half(unit + 32 * (super % 2) + 2 * row);
    const uint32_t scales = Word(body + 4 * row) >> (16 * (b % 2));
    first_scale = FloatOfSmall(static_cast<int8_t>(scales & 0xFF));
    second_scale = FloatOfSmall(static_cast<int8_t>(scales >> 8 & 0xFF));
    codes = body + 64 + 384 * (b % 2) + 4 * row;
  }
  __device__ uint32_t Code(int i) const {
    return NibbleWord(codes + 128, i) | PairWord(codes, i) << 4;
  }
  __device__ float Add(const BlockActivation& x, int32_t first, int32_t second, float a) const {
    return AddScaled(d, x, JoinHalves(first_scale, first, second_scale, second), a);
  }
  float d;
  float first_scale;
  float second_scale;
  Bytes codes;
};

template <class Bytes>
struct Q2K {
  static constexpr int kOffset = 0;
  static constexpr uint32_t kScaleBytes = 64 + 2 * 128;
  static constexpr uint32_t kUnitBlocks = 8;
  static constexpr uint32_t kUnitBytes = 64 + 4 * kScaleBytes;
  __device__ Q2K(Bytes group, uint32_t row, uint32_t b) {
    const Bytes unit = group + size_t{b / kUnitBlocks} * kUnitBytes;
    const Bytes body = unit + 64 + kScaleBytes * (b % 8 / 2);
    d = Half(unit + 2 * row);
    dmin = Half(unit + 32 + 2 * row);
    scales = Word(body + 4 * row) >> (16 * (b % 2));
    codes = body + 64 + 128 * (b % 2) + 4 * row;
  }
  __device__ uint32_t Code(int i) const { return PairWord(codes, i); }
  __device__ float Add(const BlockActivation& x, int32_t first, int32_t second, float a) const {
    const float sum = JoinHalves(Field(0), first, Field(8), second);
    const float minima = JoinHalves(Field(4), x.half_sums[0], Field(12), x.half_sums[1]);
    a = AddScaled(d, x, sum, a);
    return __fmaf_rn(-__fmul_rn(dmin, x.scale), minima, a);
  }
  __device__ float Field(uint32_t shift) const {
    return FloatOfSmall(static_cast<int32_t>(scales >> shift & 15));
  }
  float d;
  float dmin;
  uint32_t scales;
  Bytes codes;
};

template <class Bytes>
struct Q3K {
  static constexpr int kOffset = 4;
  static constexpr uint32_t kSuperBytes = 192 + 8 * 192;
  static constexpr uint32_t kUnitBlocks = 16;
  static constexpr uint32_t kUnitBytes = 64 + 2 * kSuperBytes;
  __device__ Q3K(Bytes group, uint32_t row, uint32_t b) {
    const uint32_t super = b / 8;
    const uint32_t s = b % 8;
    const Bytes unit = group + size_t{b / kUnitBlocks} * kUnitBytes;
    const Bytes body = unit + 64 + kSuperBytes * (super % 2);
    d = Half(unit + 32 * (super % 2) + 2 * row);
    first_scale = FloatOfSmall(SixBits(body + 4 * row, 2 * s) - 32);
    second_scale = FloatOfSmall(SixBits(body + 4 * row, 2 * s + 1) - 32);
    codes = body + 192 + 192 * s + 4 * row;
  }
  __device__ uint32_t Code(int i) const { return PairWord(codes + 64, i) | BitWord(codes, i) << 2; }
  __device__ float Add(const BlockActivation& x, int32_t first, int32_t second, float a) const {
    return AddScaled(d, x, JoinHalves(first_scale, first, second_scale, second), a);
  }
  float d;
  float first_scale;
  float second_scale;
  Bytes codes;
};

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_ROWS16_INTEGERS_H_
