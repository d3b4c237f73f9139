#ifndef MOETIER_KERNELS_ROWS16_LINES_H_
#define MOETIER_KERNELS_ROWS16_LINES_H_

#include <cstddef>
#include <cstdint>

#include "kernels/source_blocks.h"

// How one row's 32 codes or 16 six-bit fields lie in lines of 64 bytes: row r owns bytes
// 4r..4r+3 of each. Internal to kernels.

namespace moetier::kernels {

// The four kinds of code lines. kShift says which bits of a code they hold.

// Four lines; line j holds word 2j in its low nibbles, word 2j + 1 in the high ones.
template <uint32_t kShift>
struct NibbleLines {
  static constexpr uint32_t kLines = 4;
  static void Put(std::byte* at, const CodeWords& words) {
    for (size_t j = 0; j < 4; ++j) {
      Store32(at + 64 * j, (words[2 * j] >> kShift & kLowNibbles) |
                               (words[2 * j + 1] >> kShift & kLowNibbles) << 4);
    }
  }
  static void Take(const std::byte* at, CodeWords& words) {
    for (size_t j = 0; j < 4; ++j) {
      const uint32_t line = Load32(at + 64 * j);
      words[2 * j] |= (line & kLowNibbles) << kShift;
      words[2 * j + 1] |= (line >> 4 & kLowNibbles) << kShift;
    }
  }
};

// Eight lines; line i holds word i with the sign bit turned, unsigned for vpdpbusd.
struct ByteLines {
  static constexpr uint32_t kLines = 8;
  static constexpr uint32_t kTurn = 0x80808080;
  static void Put(std::byte* at, const CodeWords& words) {
    for (size_t i = 0; i < 8; ++i) Store32(at + 64 * i, words[i] ^ kTurn);
  }
  static void Take(const std::byte* at, CodeWords& words) {
    for (size_t i = 0; i < 8; ++i) words[i] |= Load32(at + 64 * i) ^ kTurn;
  }
};

// Two lines; bits 2f, 2f + 1 of each byte of line k are word 4k + f.
template <uint32_t kShift>
struct PairLines {
  static constexpr uint32_t kLines = 2;
  static void Put(std::byte* at, const CodeWords& words) {
    for (size_t k = 0; k < 2; ++k) {
      uint32_t line = 0;
      for (size_t f = 0; f < 4; ++f) line |= (words[4 * k + f] >> kShift & kTwoBits) << (2 * f);
      Store32(at + 64 * k, line);
    }
  }
  static void Take(const std::byte* at, CodeWords& words) {
    for (size_t k = 0; k < 2; ++k) {
      const uint32_t line = Load32(at + 64 * k);
      for (size_t f = 0; f < 4; ++f) words[4 * k + f] |= (line >> (2 * f) & kTwoBits) << kShift;
    }
  }
};

// One line; bit i of each byte is word i.
template <uint32_t kShift>
struct BitLine {
  static constexpr uint32_t kLines = 1;
  static void Put(std::byte* at, const CodeWords& words) {
    uint32_t line = 0;
    for (size_t i = 0; i < 8; ++i) line |= (words[i] >> kShift & kOneBit) << i;
    Store32(at, line);
  }
  static void Take(const std::byte* at, CodeWords& words) {
    const uint32_t line = Load32(at);
    for (size_t i = 0; i < 8; ++i) words[i] |= (line >> i & kOneBit) << kShift;
  }
};

// Three lines: fields 0..4, 5..9, 10..14 at bits 0, 6, .. 24; field 15 in the top bits of all
// three.
struct SixBitLines {
  static constexpr uint32_t kLines = 3;
  static void Put(std::byte* at, const SixBitFields& fields) {
    for (size_t w = 0; w < 3; ++w) {
      uint32_t line = (uint32_t{fields[15]} >> (2 * w) & 3) << 30;
      for (size_t f = 0; f < 5; ++f) line |= uint32_t{fields[5 * w + f]} << (6 * f);
      Store32(at + 64 * w, line);
    }
  }
  static SixBitFields Take(const std::byte* at) {
    SixBitFields fields;
    uint32_t last = 0;
    for (size_t w = 0; w < 3; ++w) {
      const uint32_t line = Load32(at + 64 * w);
      for (size_t f = 0; f < 5; ++f) fields[5 * w + f] = line >> (6 * f) & 63;
      last |= (line >> 30) << (2 * w);
    }
    fields[15] = static_cast<uint8_t>(last);
    return fields;
  }
};

// The two directions. A byte map of rows16.cc is written once, as calls of a Mover; each call moves
// this row's part of a line between the unit and the source block.

class Packer {
 public:
  using Source = const std::byte*;
  using Unit = std::byte*;
  explicit Packer(uint32_t row) : row_(row) {}

  // Half line `index` (0, 1) of a line holds an f16 a row.
  void Half(Unit line, uint32_t index, Source field) const {
    Store16(line + 32 * index + 2 * row_, Load16(field));
  }
  // Quarter `index` (0..3) of a line holds a byte a row.
  void Byte(Unit line, uint32_t index, Source field) const { line[16 * index + row_] = *field; }
  void Word(Unit line, Source field) const { Store32(line + 4 * row_, Load32(field)); }
  template <class Block>
  void SixBits(Unit lines, Source block) const {
    SixBitLines::Put(lines + 4 * row_, Block::Fields(block + Block::kFields));
  }
  template <class Block, class... Lines>
  void Codes(Unit lines, Source block, uint32_t s) const {
    const CodeWords words = Block::Codes(block, s);
    ((Lines::Put(lines + 4 * row_, words), lines += 64 * Lines::kLines), ...);
  }

 private:
  size_t row_;
};

// Writes into source bytes that are zero.
class Extractor {
 public:
  using Source = std::byte*;
  using Unit = const std::byte*;
  explicit Extractor(uint32_t row) : row_(row) {}

  void Half(Unit line, uint32_t index, Source field) const {
    Store16(field, Load16(line + 32 * index + 2 * row_));
  }
  void Byte(Unit line, uint32_t index, Source field) const { *field = line[16 * index + row_]; }
  void Word(Unit line, Source field) const { Store32(field, Load32(line + 4 * row_)); }
  template <class Block>
  void SixBits(Unit lines, Source block) const {
    Block::PutFields(block + Block::kFields, SixBitLines::Take(lines + 4 * row_));
  }
  template <class Block, class... Lines>
  void Codes(Unit lines, Source block, uint32_t s) const {
    CodeWords words{};
    ((Lines::Take(lines + 4 * row_, words), lines += 64 * Lines::kLines), ...);
    Block::PutCodes(block, s, words);
  }

 private:
  size_t row_;
};

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_ROWS16_LINES_H_
