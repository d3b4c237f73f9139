#ifndef MOETIER_KERNELS_SOURCE_BLOCKS_H_
#define MOETIER_KERNELS_SOURCE_BLOCKS_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

// The codes and six-bit scales of GGUF's blocks, taken apart and put together again a word at a
// time: what the rows16 packer reads and the extractor writes. Internal to kernels.

namespace moetier::kernels {

static_assert(std::endian::native == std::endian::little, "blocks and records are little-endian");

inline uint16_t Load16(const std::byte* at) {
  uint16_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
inline uint32_t Load32(const std::byte* at) {
  uint32_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
inline void Store16(std::byte* at, uint16_t value) { std::memcpy(at, &value, sizeof value); }
inline void Store32(std::byte* at, uint32_t value) { std::memcpy(at, &value, sizeof value); }
inline void Or32(std::byte* at, uint32_t value) { Store32(at, Load32(at) | value); }
inline uint32_t ByteAt(const std::byte* at) { return std::to_integer<uint32_t>(*at); }
inline void OrByte(std::byte* at, uint32_t value) { *at |= static_cast<std::byte>(value); }

// The stored codes of 32 columns: byte t of word i is column 4i + t.
using CodeWords = std::array<uint32_t, 8>;
// Sixteen six-bit numbers.
using SixBitFields = std::array<uint8_t, 16>;

inline constexpr uint32_t kLowNibbles = 0x0F0F0F0F;
inline constexpr uint32_t kTwoBits = 0x03030303;
inline constexpr uint32_t kOneBit = 0x01010101;

// Codes(block, s) gives columns 32s..32s+31 of a block; PutCodes sets them in a block whose code
// bits are still zero.

// 32 nibbles after a header of `kHeader` bytes; the low ones are columns 0..15.
template <size_t kHeader>
struct NibbleBlock {
  static constexpr size_t kBytes = kHeader + 16;
  static CodeWords Codes(const std::byte* block, uint32_t /*s*/) {
    CodeWords words;
    for (size_t i = 0; i < 4; ++i) {
      const uint32_t pair = Load32(block + kHeader + 4 * i);
      words[i] = pair & kLowNibbles;
      words[4 + i] = pair >> 4 & kLowNibbles;
    }
    return words;
  }
  static void PutCodes(std::byte* block, uint32_t /*s*/, const CodeWords& words) {
    for (size_t i = 0; i < 4; ++i) {
      Store32(block + kHeader + 4 * i, words[i] | words[4 + i] << 4);
    }
  }
};
using Q4_0Block = NibbleBlock<2>;
using Mxfp4Block = NibbleBlock<1>;

struct Q8_0Block {
  static constexpr size_t kBytes = 34;
  static CodeWords Codes(const std::byte* block, uint32_t /*s*/) {
    CodeWords words;
    std::memcpy(words.data(), block + 2, sizeof words);
    return words;
  }
  static void PutCodes(std::byte* block, uint32_t /*s*/, const CodeWords& words) {
    std::memcpy(block + 2, words.data(), sizeof words);
  }
};

// The twelve bytes of 8 scales and 8 minima that Q4_K and Q5_K share; field 2s is the scale of
// sub-block s, 2s + 1 its minimum.
struct ScalesAndMinima {
  static SixBitFields Fields(const std::byte* at) {
    SixBitFields fields;
    for (size_t s = 0; s < 4; ++s) {
      const uint32_t low_scale = ByteAt(at + s);
      const uint32_t low_minimum = ByteAt(at + 4 + s);
      const uint32_t upper = ByteAt(at + 8 + s);  // sub-block s + 4: low four bits of both
      fields[2 * s] = static_cast<uint8_t>(low_scale & 63);
      fields[2 * s + 1] = static_cast<uint8_t>(low_minimum & 63);
      fields[2 * s + 8] = static_cast<uint8_t>((upper & 15) | (low_scale >> 6) << 4);
      fields[2 * s + 9] = static_cast<uint8_t>(upper >> 4 | (low_minimum >> 6) << 4);
    }
    return fields;
  }
  static void PutFields(std::byte* at, const SixBitFields& fields) {
    for (size_t s = 0; s < 4; ++s) {
      const uint32_t scale = fields[2 * s + 8];
      const uint32_t minimum = fields[2 * s + 9];
      at[s] = static_cast<std::byte>(fields[2 * s] | (scale >> 4) << 6);
      at[4 + s] = static_cast<std::byte>(fields[2 * s + 1] | (minimum >> 4) << 6);
      at[8 + s] = static_cast<std::byte>((scale & 15) | (minimum & 15) << 4);
    }
  }
};

// 32 bytes of nibbles hold 64 columns, low nibbles first.
template <size_t kCodes>
struct KNibbles {
  static uint32_t Word(const std::byte* block, uint32_t s, size_t i) {
    return Load32(block + kCodes + 32 * (s / 2) + 4 * i) >> (4 * (s % 2)) & kLowNibbles;
  }
  static void PutWord(std::byte* block, uint32_t s, size_t i, uint32_t word) {
    Or32(block + kCodes + 32 * (s / 2) + 4 * i, word << (4 * (s % 2)));
  }
};

struct Q4_KBlock : ScalesAndMinima {
  static constexpr size_t kBytes = 144;
  static constexpr size_t kFields = 4;
  using Low = KNibbles<16>;
  static CodeWords Codes(const std::byte* block, uint32_t s) {
    CodeWords words;
    for (size_t i = 0; i < 8; ++i) words[i] = Low::Word(block, s, i);
    return words;
  }
  static void PutCodes(std::byte* block, uint32_t s, const CodeWords& words) {
    for (size_t i = 0; i < 8; ++i) Low::PutWord(block, s, i, words[i]);
  }
};

struct Q5_KBlock : ScalesAndMinima {
  static constexpr size_t kBytes = 176;
  static constexpr size_t kFields = 4;
  static constexpr size_t kHigh = 16;
  using Low = KNibbles<48>;
  static CodeWords Codes(const std::byte* block, uint32_t s) {
    CodeWords words;
    for (size_t i = 0; i < 8; ++i) {
      const uint32_t high = Load32(block + kHigh + 4 * i) >> s & kOneBit;
      words[i] = Low::Word(block, s, i) | high << 4;
    }
    return words;
  }
  static void PutCodes(std::byte* block, uint32_t s, const CodeWords& words) {
    for (size_t i = 0; i < 8; ++i) {
      Low::PutWord(block, s, i, words[i] & kLowNibbles);
      Or32(block + kHigh + 4 * i, (words[i] >> 4 & kOneBit) << s);
    }
  }
};

struct Q6_KBlock {
  static constexpr size_t kBytes = 210;
  static constexpr size_t kScales = 192;
  static constexpr size_t kD = 208;
  // Of each 128 columns (s / 4): 64 bytes of nibbles, blocks 0 1 low, 2 3 high; 32 bytes of pairs.
  static size_t Low(uint32_t s, size_t i) { return 64 * (s / 4) + 32 * (s % 2) + 4 * i; }
  static uint32_t LowShift(uint32_t s) { return 4 * (s % 4 / 2); }
  static size_t High(uint32_t s, size_t i) { return 128 + 32 * (s / 4) + 4 * i; }
  static uint32_t HighShift(uint32_t s) { return 2 * (s % 4); }
  static CodeWords Codes(const std::byte* block, uint32_t s) {
    CodeWords words;
    for (size_t i = 0; i < 8; ++i) {
      words[i] = (Load32(block + Low(s, i)) >> LowShift(s) & kLowNibbles) |
                 (Load32(block + High(s, i)) >> HighShift(s) & kTwoBits) << 4;
    }
    return words;
  }
  static void PutCodes(std::byte* block, uint32_t s, const CodeWords& words) {
    for (size_t i = 0; i < 8; ++i) {
      Or32(block + Low(s, i), (words[i] & kLowNibbles) << LowShift(s));
      Or32(block + High(s, i), (words[i] >> 4 & kTwoBits) << HighShift(s));
    }
  }
};

// 32 bytes of bit pairs hold 128 columns, lowest pair first.
template <size_t kCodes>
struct KPairs {
  static uint32_t Word(const std::byte* block, uint32_t s, size_t i) {
    return Load32(block + kCodes + 32 * (s / 4) + 4 * i) >> (2 * (s % 4)) & kTwoBits;
  }
  static void PutWord(std::byte* block, uint32_t s, size_t i, uint32_t word) {
    Or32(block + kCodes + 32 * (s / 4) + 4 * i, word << (2 * (s % 4)));
  }
};

struct Q2_KBlock {
  static constexpr size_t kBytes = 84;
  static constexpr size_t kD = 80;
  using Low = KPairs<16>;
  static CodeWords Codes(const std::byte* block, uint32_t s) {
    CodeWords words;
    for (size_t i = 0; i < 8; ++i) words[i] = Low::Word(block, s, i);
    return words;
  }
  static void PutCodes(std::byte* block, uint32_t s, const CodeWords& words) {
    for (size_t i = 0; i < 8; ++i) Low::PutWord(block, s, i, words[i]);
  }
};

struct Q3_KBlock {
  static constexpr size_t kBytes = 110;
  static constexpr size_t kFields = 96;
  static constexpr size_t kD = 108;
  using Low = KPairs<32>;
  static CodeWords Codes(const std::byte* block, uint32_t s) {
    CodeWords words;
    for (size_t i = 0; i < 8; ++i) {
      words[i] = Low::Word(block, s, i) | (Load32(block + 4 * i) >> s & kOneBit) << 2;
    }
    return words;
  }
  static void PutCodes(std::byte* block, uint32_t s, const CodeWords& words) {
    for (size_t i = 0; i < 8; ++i) {
      Low::PutWord(block, s, i, words[i] & kTwoBits);
      Or32(block + 4 * i, (words[i] >> 2 & kOneBit) << s);
    }
  }
  // Field s: low four bits in bytes 0..7 (s < 8 the low nibbles), upper two in bytes 8..11.
  static SixBitFields Fields(const std::byte* at) {
    SixBitFields fields;
    for (size_t s = 0; s < 16; ++s) {
      const uint32_t low = ByteAt(at + s % 8) >> (4 * (s / 8)) & 15;
      const uint32_t high = ByteAt(at + 8 + s % 4) >> (2 * (s / 4)) & 3;
      fields[s] = static_cast<uint8_t>(low | high << 4);
    }
    return fields;
  }
  static void PutFields(std::byte* at, const SixBitFields& fields) {
    for (size_t s = 0; s < 16; ++s) {
      OrByte(at + s % 8, (fields[s] & 15u) << (4 * (s / 8)));
      OrByte(at + 8 + s % 4, (uint32_t{fields[s]} >> 4) << (2 * (s / 4)));
    }
  }
};

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_SOURCE_BLOCKS_H_
