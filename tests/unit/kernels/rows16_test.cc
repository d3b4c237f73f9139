#include "kernels/rows16.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "kernels/reference/block_fields.h"
#include "tests/unit/kernels/random_expert.h"

// Reads codes and scales out of groups by the byte maps as ARCHITECTURE.md words them, apart from
// the packer's code, and compares them with what the reference reads from GGUF's blocks.

namespace moetier::kernels {
namespace {

struct Group {
  std::vector<std::byte> bytes;
  [[nodiscard]] uint32_t Byte(uint32_t line, uint32_t at) const {
    return std::to_integer<uint32_t>(bytes.at(size_t{64} * line + at));
  }
  [[nodiscard]] uint16_t Half(uint32_t line, uint32_t index, uint32_t row) const {
    const uint32_t at = 32 * index + 2 * row;
    return static_cast<uint16_t>(Byte(line, at) | Byte(line, at + 1) << 8);
  }
  [[nodiscard]] uint32_t Word(uint32_t line, uint32_t row) const {
    uint32_t word = 0;
    for (uint32_t t = 0; t < 4; ++t) word |= Byte(line, 4 * row + t) << (8 * t);
    return word;
  }
  // Column c (0..31) of row `row` in code lines that start at `line`.
  [[nodiscard]] uint32_t N(uint32_t line, uint32_t row, uint32_t c) const {
    return Byte(line + c / 8, 4 * row + c % 4) >> (4 * (c / 4 % 2)) & 15;
  }
  [[nodiscard]] uint32_t B(uint32_t line, uint32_t row, uint32_t c) const {
    return Byte(line + c / 4, 4 * row + c % 4) ^ 0x80;
  }
  [[nodiscard]] uint32_t T(uint32_t line, uint32_t row, uint32_t c) const {
    return Byte(line + c / 16, 4 * row + c % 4) >> (2 * (c / 4 % 4)) & 3;
  }
  [[nodiscard]] uint32_t O(uint32_t line, uint32_t row, uint32_t c) const {
    return Byte(line, 4 * row + c % 4) >> (c / 4) & 1;
  }
  // Six-bit field f of the three lines from `line`.
  [[nodiscard]] uint32_t Field(uint32_t line, uint32_t row, uint32_t f) const {
    if (f < 15) return Word(line + f / 5, row) >> (6 * (f % 5)) & 63;
    return Word(line, row) >> 30 | (Word(line + 1, row) >> 30) << 2 |
           (Word(line + 2, row) >> 30) << 4;
  }
};

BlockFields Fields(float d, float dmin, std::array<int, 2> scale, std::array<int, 2> minimum) {
  return {{}, {scale[0], scale[1]}, {minimum[0], minimum[1]}, d, dmin};
}

template <class Code>
BlockFields With(BlockFields fields, Code code) {
  for (uint32_t c = 0; c < 32; ++c) fields.code[c] = static_cast<int>(code(c));
  return fields;
}

int SignedByte(uint32_t byte) { return static_cast<int8_t>(byte); }

// Block b of 32 columns of a row, by the byte map of its type.
BlockFields ReadGroup(WeightType type, const Group& g, uint32_t row, uint32_t b) {
  const uint32_t super = b / 8;
  const uint32_t s = b % 8;
  const auto half = [&](uint32_t line, uint32_t index) {
    return HalfToFloat(g.Half(line, index, row));
  };
  const auto i = [](uint32_t value) { return static_cast<int>(value); };
  switch (type) {
    case WeightType::kQ4_0: {
      const uint32_t unit = 9 * (b / 2);
      return With(Fields(half(unit, b % 2), 0, {1, 1}, {0, 0}),
                  [&](uint32_t c) { return i(g.N(unit + 1 + 4 * (b % 2), row, c)) - 8; });
    }
    case WeightType::kQ8_0: {
      const uint32_t unit = 17 * (b / 2);
      return With(Fields(half(unit, b % 2), 0, {1, 1}, {0, 0}),
                  [&](uint32_t c) { return SignedByte(g.B(unit + 1 + 8 * (b % 2), row, c)); });
    }
    case WeightType::kMXFP4: {
      const uint32_t unit = 17 * (b / 4);
      const int exponent = i(g.Byte(unit, 16 * (b % 4) + row)) - 128;
      constexpr std::array kValues = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
      return With(Fields(std::ldexp(1.0f, exponent), 0, {1, 1}, {0, 0}),
                  [&](uint32_t c) { return kValues[g.N(unit + 1 + 4 * (b % 4), row, c)]; });
    }
    case WeightType::kQ4_K:
    case WeightType::kQ5_K: {
      const bool five = type == WeightType::kQ5_K;
      const uint32_t unit = (five ? 44 : 36) * super;
      const uint32_t lines = unit + 4 + (five ? 5 : 4) * s;
      const int scale = i(g.Field(unit + 1, row, 2 * s));
      const int minimum = i(g.Field(unit + 1, row, 2 * s + 1));
      return With(Fields(half(unit, 0), half(unit, 1), {scale, scale}, {minimum, minimum}),
                  [&](uint32_t c) {
                    return five ? g.N(lines + 1, row, c) | g.O(lines, row, c) << 4
                                : g.N(lines, row, c);
                  });
    }
    case WeightType::kQ6_K: {
      const uint32_t unit = 105 * (super / 2);
      const uint32_t quarter = unit + 1 + 52 * (super % 2) + 13 * (s / 2);
      const uint32_t lines = quarter + 1 + 6 * (s % 2);
      const auto scale = [&](uint32_t h) {
        return SignedByte(g.Byte(quarter, 4 * row + 2 * (s % 2) + h));
      };
      return With(Fields(half(unit, super % 2), 0, {scale(0), scale(1)}, {0, 0}), [&](uint32_t c) {
        return i(g.N(lines + 2, row, c) | g.T(lines, row, c) << 4) - 32;
      });
    }
    case WeightType::kQ2_K: {
      const uint32_t unit = 21 * super;
      const uint32_t quarter = unit + 1 + 5 * (s / 2);
      const auto byte = [&](uint32_t h) { return g.Byte(quarter, 4 * row + 2 * (s % 2) + h); };
      return With(Fields(half(unit, 0), half(unit, 1), {i(byte(0) & 15), i(byte(1) & 15)},
                         {i(byte(0) >> 4), i(byte(1) >> 4)}),
                  [&](uint32_t c) { return g.T(quarter + 1 + 2 * (s % 2), row, c); });
    }
    case WeightType::kQ3_K: {
      const uint32_t unit = 55 * (super / 2);
      const uint32_t block = unit + 1 + 27 * (super % 2);
      const auto scale = [&](uint32_t h) { return i(g.Field(block, row, 2 * s + h)) - 32; };
      return With(Fields(half(unit, super % 2), 0, {scale(0), scale(1)}, {0, 0}), [&](uint32_t c) {
        return i(g.T(block + 4 + 3 * s, row, c) | g.O(block + 3 + 3 * s, row, c) << 2) - 4;
      });
    }
    default:
      FAIL("no integer rows16 type");
      return {};
  }
}

// `rows` random rows of a type and their group.
struct Sample {
  Sample(WeightType sample_type, uint32_t sample_columns, uint32_t rows)
      : type(sample_type), columns(sample_columns), row_bytes(*RowBytes(type, columns)) {
    std::mt19937_64 random(columns + rows);
    source =
        RandomBlocks(type, rows * row_bytes / Info(type).block_bytes, BlockKind::kExtreme, random);
    group.bytes.assign(GroupBytes(type, columns), std::byte{0xA5});
    PackGroup(type, columns, source.data(), row_bytes, rows, group.bytes.data());
  }
  [[nodiscard]] std::span<const std::byte> Row(uint32_t row) const {
    return std::span(source).subspan(row * row_bytes, row_bytes);
  }
  WeightType type;
  uint32_t columns;
  size_t row_bytes;
  std::vector<std::byte> source;
  Group group;
};

bool Equal(const BlockFields& a, const BlockFields& b) {
  return a.code == b.code && a.scale == b.scale && a.minimum == b.minimum && a.d == b.d &&
         a.dmin == b.dmin;
}

}  // namespace

TEST_CASE("Rows16: codes and scales lie where the byte maps say", "[kernels]") {
  for (const WeightType type : Rows16Types()) {
    if (!Info(type).integer_dot) continue;
    for (const uint32_t columns : {160u, 256u, 768u, 1280u, 2048u}) {
      if (!RowBytes(type, columns).has_value()) continue;
      const Sample sample(type, columns, 16);
      size_t different = 0;
      for (uint32_t row = 0; row < 16; ++row) {
        for (uint32_t b = 0; b < columns / 32; ++b) {
          if (!Equal(ReadGroup(type, sample.group, row, b),
                     ReadBlockFields(type, sample.Row(row), b))) {
            ++different;
          }
        }
      }
      CAPTURE(Info(type).name, columns);
      CHECK(different == 0);
    }
  }
}

TEST_CASE("Rows16: float weights lie two or one column a line", "[kernels]") {
  for (const uint32_t columns : {1u, 7u, 64u, 130u, 131u}) {
    const Sample halves(WeightType::kBF16, columns, 16);
    const Sample words(WeightType::kF32, columns, 16);
    size_t different = 0;
    for (uint32_t row = 0; row < 16; ++row) {
      for (uint32_t c = 0; c < columns; ++c) {
        uint16_t half;
        uint32_t word;
        std::memcpy(&half, halves.Row(row).data() + 2 * c, sizeof half);
        std::memcpy(&word, words.Row(row).data() + 4 * c, sizeof word);
        if ((halves.group.Word(c / 2, row) >> (16 * (c % 2)) & 0xFFFF) != half) ++different;
        if (words.group.Word(c, row) != word) ++different;
      }
    }
    CAPTURE(columns);
    CHECK(different == 0);
    CHECK(halves.group.bytes.size() == size_t{64} * ((columns + 1) / 2));
    if (columns % 2 == 1) CHECK(halves.group.Word(columns / 2, 3) >> 16 == 0);
  }
}

TEST_CASE("Rows16: rows beyond the matrix are rows of zero blocks", "[kernels]") {
  for (const WeightType type : Rows16Types()) {
    const Sample sample(type, 768, 5);
    std::vector<std::byte> row(sample.row_bytes, std::byte{1});
    ExtractGroupRow(type, 768, sample.group.bytes.data(), 5, row.data());
    CAPTURE(Info(type).name);
    CHECK(row == std::vector<std::byte>(sample.row_bytes));
  }
}

TEST_CASE("Rows16: an incomplete unit's header is zero where it has no block", "[kernels]") {
  const Sample q4_0(WeightType::kQ4_0, 160, 16);  // five blocks: the third unit has one
  const Sample mxfp4(WeightType::kMXFP4, 160, 16);
  const Sample q6_k(WeightType::kQ6_K, 768, 16);
  for (uint32_t row = 0; row < 16; ++row) {
    CHECK(q4_0.group.Half(18, 1, row) == 0);
    CHECK(q6_k.group.Half(105, 1, row) == 0);
    for (uint32_t quarter = 1; quarter < 4; ++quarter) {
      CHECK(mxfp4.group.Byte(17, 16 * quarter + row) == 0);
    }
  }
  CHECK(q4_0.group.bytes.size() == 64u * (9 + 9 + 5));
  CHECK(q6_k.group.bytes.size() == 64u * (105 + 53));
}

}  // namespace moetier::kernels
