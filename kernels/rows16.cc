#include "kernels/rows16.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "kernels/rows16_lines.h"

namespace moetier::kernels {
namespace {

// The byte maps. A unit is one header line and then the lines of up to kUnitBlocks source blocks;
// an incomplete last unit keeps its whole header line and only the blocks that it has.
// Header moves block `index`'s header; Body moves its other lines, which start at `lines`.

// Q4_0: d of two blocks; four lines of nibbles a block.
struct Q4_0Map {
  using Block = Q4_0Block;
  static constexpr uint32_t kUnitBlocks = 2;
  static constexpr uint32_t kBlockLines = 4;
  template <class M>
  static void Header(const M& m, typename M::Unit line, uint32_t index, typename M::Source block) {
    m.Half(line, index, block);
  }
  template <class M>
  static void Body(const M& m, typename M::Unit lines, typename M::Source block) {
    m.template Codes<Block, NibbleLines<0>>(lines, block, 0);
  }
};

// Q8_0: d of two blocks; eight lines of bytes a block.
struct Q8_0Map {
  using Block = Q8_0Block;
  static constexpr uint32_t kUnitBlocks = 2;
  static constexpr uint32_t kBlockLines = 8;
  template <class M>
  static void Header(const M& m, typename M::Unit line, uint32_t index, typename M::Source block) {
    m.Half(line, index, block);
  }
  template <class M>
  static void Body(const M& m, typename M::Unit lines, typename M::Source block) {
    m.template Codes<Block, ByteLines>(lines, block, 0);
  }
};

// MXFP4: e of four blocks; four lines of nibbles a block.
struct Mxfp4Map {
  using Block = Mxfp4Block;
  static constexpr uint32_t kUnitBlocks = 4;
  static constexpr uint32_t kBlockLines = 4;
  template <class M>
  static void Header(const M& m, typename M::Unit line, uint32_t index, typename M::Source block) {
    m.Byte(line, index, block);
  }
  template <class M>
  static void Body(const M& m, typename M::Unit lines, typename M::Source block) {
    m.template Codes<Block, NibbleLines<0>>(lines, block, 0);
  }
};

// Q4_K, Q5_K: d and dmin; scales and minima; the code lines of eight sub-blocks.
template <class BlockType, class... Lines>
struct ScaleMinimumMap {
  using Block = BlockType;
  static constexpr uint32_t kUnitBlocks = 1;
  static constexpr uint32_t kSubLines = (Lines::kLines + ...);
  static constexpr uint32_t kBlockLines = 3 + 8 * kSubLines;
  template <class M>
  static void Header(const M& m, typename M::Unit line, uint32_t, typename M::Source block) {
    m.Half(line, 0, block);
    m.Half(line, 1, block + 2);
  }
  template <class M>
  static void Body(const M& m, typename M::Unit lines, typename M::Source block) {
    m.template SixBits<Block>(lines, block);
    for (uint32_t s = 0; s < 8; ++s) {
      m.template Codes<Block, Lines...>(lines + 64 * (3 + s * kSubLines), block, s);
    }
  }
};
using Q4_KMap = ScaleMinimumMap<Q4_KBlock, NibbleLines<0>>;
using Q5_KMap = ScaleMinimumMap<Q5_KBlock, BitLine<4>, NibbleLines<0>>;

// Q6_K: d of two superblocks; four times a scale line and the code lines of two sub-blocks.
struct Q6_KMap {
  using Block = Q6_KBlock;
  static constexpr uint32_t kUnitBlocks = 2;
  static constexpr uint32_t kBlockLines = 4 * (1 + 2 * 6);
  template <class M>
  static void Header(const M& m, typename M::Unit line, uint32_t index, typename M::Source block) {
    m.Half(line, index, block + Block::kD);
  }
  template <class M>
  static void Body(const M& m, typename M::Unit lines, typename M::Source block) {
    for (uint32_t k = 0; k < 4; ++k, lines += 64 * 13) {
      m.Word(lines, block + Block::kScales + 4 * k);
      m.template Codes<Block, PairLines<4>, NibbleLines<0>>(lines + 64, block, 2 * k);
      m.template Codes<Block, PairLines<4>, NibbleLines<0>>(lines + 64 * 7, block, 2 * k + 1);
    }
  }
};

// Q2_K: d and dmin; four times a line of scales with minima and the code lines of two sub-blocks.
struct Q2_KMap {
  using Block = Q2_KBlock;
  static constexpr uint32_t kUnitBlocks = 1;
  static constexpr uint32_t kBlockLines = 4 * (1 + 2 * 2);
  template <class M>
  static void Header(const M& m, typename M::Unit line, uint32_t, typename M::Source block) {
    m.Half(line, 0, block + Block::kD);
    m.Half(line, 1, block + Block::kD + 2);
  }
  template <class M>
  static void Body(const M& m, typename M::Unit lines, typename M::Source block) {
    for (uint32_t k = 0; k < 4; ++k, lines += 64 * 5) {
      m.Word(lines, block + 4 * k);
      m.template Codes<Block, PairLines<0>>(lines + 64, block, 2 * k);
      m.template Codes<Block, PairLines<0>>(lines + 64 * 3, block, 2 * k + 1);
    }
  }
};

// Q3_K: d of two superblocks; scales; third bit and lower two of eight sub-blocks.
struct Q3_KMap {
  using Block = Q3_KBlock;
  static constexpr uint32_t kUnitBlocks = 2;
  static constexpr uint32_t kBlockLines = 3 + 8 * 3;
  template <class M>
  static void Header(const M& m, typename M::Unit line, uint32_t index, typename M::Source block) {
    m.Half(line, index, block + Block::kD);
  }
  template <class M>
  static void Body(const M& m, typename M::Unit lines, typename M::Source block) {
    m.template SixBits<Block>(lines, block);
    for (uint32_t s = 0; s < 8; ++s) {
      m.template Codes<Block, BitLine<2>, PairLines<0>>(lines + 64 * (3 + 3 * s), block, s);
    }
  }
};

template <class Map>
struct BlockGroup {
  using Block = typename Map::Block;

  static uint64_t Bytes(uint64_t blocks) {
    const uint64_t units = (blocks + Map::kUnitBlocks - 1) / Map::kUnitBlocks;
    return kLineBytes * (units + blocks * Map::kBlockLines);
  }

  // Row by row within a unit, so that the unit's lines stay in the first-level cache.
  static void Pack(uint32_t blocks, const std::byte* source, uint64_t row_bytes, uint32_t rows,
                   std::byte* group) {
    static constexpr std::array<std::byte, Block::kBytes * Map::kUnitBlocks> kZeroRow{};
    for (uint32_t first = 0; first < blocks; first += Map::kUnitBlocks) {
      const uint32_t count = std::min(Map::kUnitBlocks, blocks - first);
      std::memset(group, 0, kLineBytes);  // header places of blocks that an incomplete unit lacks
      for (uint32_t row = 0; row < kGroupRows; ++row) {
        const std::byte* from =
            row < rows ? source + row * row_bytes + size_t{first} * Block::kBytes : kZeroRow.data();
        MoveUnit(Packer(row), group, from, count);
      }
      group += kLineBytes * (1 + count * Map::kBlockLines);
    }
  }

  static void Extract(uint32_t blocks, const std::byte* group, uint32_t row, std::byte* out) {
    std::memset(out, 0, size_t{blocks} * Block::kBytes);
    for (uint32_t first = 0; first < blocks; first += Map::kUnitBlocks) {
      const uint32_t count = std::min(Map::kUnitBlocks, blocks - first);
      MoveUnit(Extractor(row), group, out + size_t{first} * Block::kBytes, count);
      group += kLineBytes * (1 + count * Map::kBlockLines);
    }
  }

 private:
  template <class M>
  static void MoveUnit(const M& m, typename M::Unit unit, typename M::Source source,
                       uint32_t count) {
    for (uint32_t index = 0; index < count; ++index) {
      typename M::Source block = source + index * Block::kBytes;
      Map::Header(m, unit, index, block);
      Map::Body(m, unit + kLineBytes * (1 + index * Map::kBlockLines), block);
    }
  }
};

// F32: one column a line. BF16, F16: two columns a line, the even one in the low half word; the
// odd half of a last single column is zero.
template <uint32_t kWeightBytes>
struct FloatGroup {
  static constexpr uint32_t kPerLine = 4 / kWeightBytes;

  static uint64_t Bytes(uint64_t columns) {
    return kLineBytes * ((columns + kPerLine - 1) / kPerLine);
  }

  // In pieces of 64 lines, so that the lines being written stay in the first-level cache.
  static void Pack(uint32_t columns, const std::byte* source, uint64_t row_bytes, uint32_t rows,
                   std::byte* group) {
    constexpr uint32_t kPiece = 64;
    const uint32_t whole = columns / kPerLine;
    for (uint32_t first = 0; first < whole; first += kPiece) {
      const uint32_t end = std::min(first + kPiece, whole);
      for (uint32_t row = 0; row < kGroupRows; ++row) {
        for (uint32_t line = first; line < end; ++line) {
          const uint32_t word =
              row < rows ? Load32(source + row * row_bytes + size_t{4} * line) : 0;
          Store32(group + size_t{kLineBytes} * line + 4 * row, word);
        }
      }
    }
    if (whole * kPerLine == columns) return;
    std::byte* last = group + size_t{kLineBytes} * whole;
    std::memset(last, 0, kLineBytes);
    for (uint32_t row = 0; row < rows; ++row) {
      Store16(last + 4 * row, Load16(source + row * row_bytes + size_t{4} * whole));
    }
  }

  static void Extract(uint32_t columns, const std::byte* group, uint32_t row, std::byte* out) {
    const uint32_t whole = columns / kPerLine;
    for (uint32_t line = 0; line < whole; ++line) {
      Store32(out + size_t{4} * line, Load32(group + size_t{kLineBytes} * line + 4 * row));
    }
    if (whole * kPerLine == columns) return;
    Store16(out + size_t{4} * whole, Load16(group + size_t{kLineBytes} * whole + 4 * row));
  }
};

// Calls `use` with the group of `type`; counts below are blocks for BlockGroup, columns for
// FloatGroup, which is a block of one weight.
template <class Use>
auto WithGroup(WeightType type, Use use) {
  switch (type) {
    case WeightType::kQ4_0:
      return use(BlockGroup<Q4_0Map>());
    case WeightType::kQ8_0:
      return use(BlockGroup<Q8_0Map>());
    case WeightType::kMXFP4:
      return use(BlockGroup<Mxfp4Map>());
    case WeightType::kQ4_K:
      return use(BlockGroup<Q4_KMap>());
    case WeightType::kQ5_K:
      return use(BlockGroup<Q5_KMap>());
    case WeightType::kQ6_K:
      return use(BlockGroup<Q6_KMap>());
    case WeightType::kQ2_K:
      return use(BlockGroup<Q2_KMap>());
    case WeightType::kQ3_K:
      return use(BlockGroup<Q3_KMap>());
    case WeightType::kBF16:
    case WeightType::kF16:
      return use(FloatGroup<2>());
    case WeightType::kF32:
      return use(FloatGroup<4>());
    default:
      CheckFailed(__FILE__, __LINE__, "has_rows16", Info(type).name);
  }
}

uint32_t Blocks(WeightType type, uint32_t columns) {
  const uint32_t block = Info(type).block_weights;
  MOE_CHECK(columns % block == 0, "{} columns of {}", columns, Info(type).name);
  return columns / block;
}

}  // namespace

uint64_t GroupBytes(WeightType type, uint32_t columns) {
  const uint32_t blocks = Blocks(type, columns);
  return WithGroup(type, [&](auto group) { return group.Bytes(blocks); });
}

void PackGroup(WeightType type, uint32_t columns, const std::byte* source, uint64_t row_bytes,
               uint32_t rows, std::byte* group) {
  const uint32_t blocks = Blocks(type, columns);
  WithGroup(type, [&](auto form) { form.Pack(blocks, source, row_bytes, rows, group); });
}

void ExtractGroupRow(WeightType type, uint32_t columns, const std::byte* group, uint32_t row,
                     std::byte* out) {
  const uint32_t blocks = Blocks(type, columns);
  WithGroup(type, [&](auto form) { form.Extract(blocks, group, row, out); });
}

}  // namespace moetier::kernels
