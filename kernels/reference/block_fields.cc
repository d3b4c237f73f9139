#include "kernels/reference/block_fields.h"

#include <bit>
#include <cmath>

#include "base/check.h"

namespace moetier::kernels {
namespace {

using Block = std::span<const std::byte>;

uint32_t ByteAt(Block block, size_t at) { return std::to_integer<uint32_t>(block[at]); }
uint32_t HalfWordAt(Block block, size_t at) {
  return ByteAt(block, at) | ByteAt(block, at + 1) << 8;
}
float HalfAt(Block block, size_t at) {
  return HalfToFloat(static_cast<uint16_t>(HalfWordAt(block, at)));
}
int32_t SignedByteAt(Block block, size_t at) {
  return static_cast<int8_t>(std::to_integer<uint8_t>(block[at]));
}

// The nibble of column i where low nibbles are columns 0..15, high ones 16..31.
uint32_t Nibble(Block block, size_t codes, uint32_t i) {
  return ByteAt(block, codes + i % 16) >> (4 * (i / 16)) & 15;
}

// Value of code k of MXFP4, in halves (e counts from 2^-128), and of IQ4_NL and IQ4_XS.
constexpr std::array<int32_t, 16> kMxfp4Values = {0, 1,  2,  3,  4,  6,  8,  12,
                                                  0, -1, -2, -3, -4, -6, -8, -12};
constexpr std::array<int32_t, 16> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                1,    13,   25,  38,  53,  69,  89,  113};

template <class Code>
std::array<int32_t, 32> EachColumn(Code code) {
  std::array<int32_t, 32> codes;
  for (uint32_t i = 0; i < 32; ++i) codes[i] = static_cast<int32_t>(code(i));
  return codes;
}

BlockFields Plain(float d, const std::array<int32_t, 32>& codes) {
  return {codes, {1, 1}, {0, 0}, d, 0.0f};
}

BlockFields ReadQ4_0(Block block) {
  return Plain(HalfAt(block, 0), EachColumn([&](uint32_t i) {
                 return static_cast<int32_t>(Nibble(block, 2, i)) - 8;
               }));
}

BlockFields ReadQ8_0(Block block) {
  return Plain(HalfAt(block, 0),
               EachColumn([&](uint32_t i) { return SignedByteAt(block, 2 + i); }));
}

BlockFields ReadMxfp4(Block block) {
  const int exponent = static_cast<int>(ByteAt(block, 0)) - 128;
  return Plain(std::ldexp(1.0f, exponent),
               EachColumn([&](uint32_t i) { return kMxfp4Values[Nibble(block, 1, i)]; }));
}

BlockFields ReadIq4Nl(Block block) {
  return Plain(HalfAt(block, 0),
               EachColumn([&](uint32_t i) { return kIq4Values[Nibble(block, 2, i)]; }));
}

// Bit i of the four bytes at `high` is the fifth bit of column i.
uint32_t FiveBits(Block block, size_t high, size_t codes, uint32_t i) {
  return Nibble(block, codes, i) | (ByteAt(block, high + i / 8) >> (i % 8) & 1) << 4;
}

BlockFields ReadQ5_0(Block block) {
  return Plain(HalfAt(block, 0), EachColumn([&](uint32_t i) {
                 return static_cast<int32_t>(FiveBits(block, 2, 6, i)) - 16;
               }));
}

// Q4_1 and Q5_1 add m: one negative minimum.
BlockFields ReadQ4_1(Block block) {
  return {EachColumn([&](uint32_t i) { return Nibble(block, 4, i); }),
          {1, 1},
          {1, 1},
          HalfAt(block, 0),
          -HalfAt(block, 2)};
}
BlockFields ReadQ5_1(Block block) {
  return {EachColumn([&](uint32_t i) { return FiveBits(block, 4, 8, i); }),
          {1, 1},
          {1, 1},
          HalfAt(block, 0),
          -HalfAt(block, 2)};
}

// A superblock's sub-block s, 32 columns, from here on.

// The six-bit scale and minimum of sub-block s in the twelve bytes at `at` (Q4_K, Q5_K).
struct ScaleMinimum {
  int32_t scale;
  int32_t minimum;
};
ScaleMinimum ReadScaleMinimum(Block block, size_t at, uint32_t s) {
  if (s < 4) {
    return {static_cast<int32_t>(ByteAt(block, at + s) & 63),
            static_cast<int32_t>(ByteAt(block, at + 4 + s) & 63)};
  }
  const uint32_t low = ByteAt(block, at + 4 + s);
  return {static_cast<int32_t>((low & 15) | ByteAt(block, at + s - 4) >> 6 << 4),
          static_cast<int32_t>(low >> 4 | ByteAt(block, at + s) >> 6 << 4)};
}

// 32 bytes hold 64 columns, low nibbles first (Q4_K, Q5_K).
uint32_t KNibble(Block block, size_t codes, uint32_t s, uint32_t i) {
  return ByteAt(block, codes + 32 * (s / 2) + i) >> (4 * (s % 2)) & 15;
}
// 32 bytes hold 128 columns, lowest pair of bits first (Q2_K, Q3_K; Q6_K's upper bits).
uint32_t KPair(Block block, size_t codes, uint32_t s, uint32_t i) {
  return ByteAt(block, codes + 32 * (s / 4) + i) >> (2 * (s % 4)) & 3;
}

BlockFields ReadQ4_K(Block block, uint32_t s) {
  const ScaleMinimum sm = ReadScaleMinimum(block, 4, s);
  return {EachColumn([&](uint32_t i) { return KNibble(block, 16, s, i); }),
          {sm.scale, sm.scale},
          {sm.minimum, sm.minimum},
          HalfAt(block, 0),
          HalfAt(block, 2)};
}

BlockFields ReadQ5_K(Block block, uint32_t s) {
  const ScaleMinimum sm = ReadScaleMinimum(block, 4, s);
  return {EachColumn([&](uint32_t i) {
            return KNibble(block, 48, s, i) | (ByteAt(block, 16 + i) >> s & 1) << 4;
          }),
          {sm.scale, sm.scale},
          {sm.minimum, sm.minimum},
          HalfAt(block, 0),
          HalfAt(block, 2)};
}

BlockFields ReadQ6_K(Block block, uint32_t s) {
  // Of each 128 columns: 64 bytes of nibbles; sub-blocks 0 and 1 low, 2 and 3 high.
  const auto code = [&](uint32_t i) {
    const uint32_t low = ByteAt(block, 64 * (s / 4) + 32 * (s % 2) + i) >> (4 * (s % 4 / 2)) & 15;
    return static_cast<int32_t>(low | KPair(block, 128, s, i) << 4) - 32;
  };
  return {EachColumn(code),
          {SignedByteAt(block, 192 + 2 * s), SignedByteAt(block, 193 + 2 * s)},
          {0, 0},
          HalfAt(block, 208),
          0.0f};
}

BlockFields ReadQ2_K(Block block, uint32_t s) {
  const uint32_t first = ByteAt(block, 2 * s);
  const uint32_t second = ByteAt(block, 2 * s + 1);
  return {EachColumn([&](uint32_t i) { return KPair(block, 16, s, i); }),
          {static_cast<int32_t>(first & 15), static_cast<int32_t>(second & 15)},
          {static_cast<int32_t>(first >> 4), static_cast<int32_t>(second >> 4)},
          HalfAt(block, 80),
          HalfAt(block, 82)};
}

BlockFields ReadQ3_K(Block block, uint32_t s) {
  // Scale j of 16: four low bits in bytes 96..103, two upper bits in 104..107.
  const auto scale = [&](uint32_t j) {
    const uint32_t low = ByteAt(block, 96 + j % 8) >> (4 * (j / 8)) & 15;
    const uint32_t high = ByteAt(block, 104 + j % 4) >> (2 * (j / 4)) & 3;
    return static_cast<int32_t>(low | high << 4) - 32;
  };
  const auto code = [&](uint32_t i) {
    const uint32_t third = ByteAt(block, i) >> s & 1;
    return static_cast<int32_t>(KPair(block, 32, s, i) | third << 2) - 4;
  };
  return {EachColumn(code), {scale(2 * s), scale(2 * s + 1)}, {0, 0}, HalfAt(block, 108), 0.0f};
}

BlockFields ReadIq4Xs(Block block, uint32_t s) {
  const uint32_t low = ByteAt(block, 4 + s / 2) >> (4 * (s % 2)) & 15;
  const uint32_t high = HalfWordAt(block, 2) >> (2 * s) & 3;
  const int32_t scale = static_cast<int32_t>(low | high << 4) - 32;
  return {EachColumn([&](uint32_t i) { return kIq4Values[Nibble(block, 8 + 16 * s, i)]; }),
          {scale, scale},
          {0, 0},
          HalfAt(block, 0),
          0.0f};
}

}  // namespace

BlockFields ReadBlockFields(WeightType type, std::span<const std::byte> row, uint32_t b) {
  const WeightTypeInfo& info = Info(type);
  const uint32_t blocks_of_32 = info.block_weights / 32;
  const Block block = row.subspan(size_t{b} / blocks_of_32 * info.block_bytes, info.block_bytes);
  const uint32_t s = b % blocks_of_32;
  switch (type) {
    case WeightType::kQ4_0:
      return ReadQ4_0(block);
    case WeightType::kQ4_1:
      return ReadQ4_1(block);
    case WeightType::kQ5_0:
      return ReadQ5_0(block);
    case WeightType::kQ5_1:
      return ReadQ5_1(block);
    case WeightType::kQ8_0:
      return ReadQ8_0(block);
    case WeightType::kQ2_K:
      return ReadQ2_K(block, s);
    case WeightType::kQ3_K:
      return ReadQ3_K(block, s);
    case WeightType::kQ4_K:
      return ReadQ4_K(block, s);
    case WeightType::kQ5_K:
      return ReadQ5_K(block, s);
    case WeightType::kQ6_K:
      return ReadQ6_K(block, s);
    case WeightType::kIQ4_NL:
      return ReadIq4Nl(block);
    case WeightType::kIQ4_XS:
      return ReadIq4Xs(block, s);
    case WeightType::kMXFP4:
      return ReadMxfp4(block);
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kBF16:
      break;
  }
  CheckFailed(__FILE__, __LINE__, "integer_dot", info.name);
}

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = uint32_t{bits} >> 15 << 31;
  const uint32_t exponent = bits >> 10 & 31;
  const uint32_t fraction = bits & 1023;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact in f32
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

float Bfloat16ToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

}  // namespace moetier::kernels
