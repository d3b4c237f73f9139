#ifndef MOETIER_KERNELS_CPU_ROWS16_FORMATS_H_
#define MOETIER_KERNELS_CPU_ROWS16_FORMATS_H_

#include <cstdint>

// How each weight type's rows16 bytes become integer codes and scales. Only for the files that are
// compiled for one instruction set; V is that set's operations. Byte maps: ARCHITECTURE.md,
// "Records". A group of 16 rows is a row of units; a unit is a header and bodies; a body is a
// header (often empty) and one or two blocks of 32 columns.

namespace moetier::kernels {
namespace {

#define MOETIER_ALWAYS_INLINE inline __attribute__((always_inline))
#define MOETIER_INLINE_LAMBDA __attribute__((always_inline))

// body.operator()<0>() to <kCount - 1>(), without a loop at any optimisation level: the arrays that
// the body indexes must become registers.
template <int kCount, int kFrom = 0, class Body>
MOETIER_ALWAYS_INLINE void Unroll(const Body& body) {
  if constexpr (kFrom < kCount) {
    body.template operator()<kFrom>();
    Unroll<kCount, kFrom + 1>(body);
  }
}

// What a block adds to its running sum `a` (I, I0, I1: integer dots of the block and its halves).
enum class Step {
  kScaled,         // a = fma(d * xs, I, a)
  kScaledMinimum,  // then a = fma(-n, xsum, a)
  kHalves,         // a = fma(d * xs, sc0 * I0 + sc1 * I1, a)
  kHalvesMinimum,  // then a = fma(-(dmin * xs), m0 * B0 + m1 * B1, a)
};

// Four lines that hold words 2j and 2j+1 in the low and high nibbles of line j.
template <class V, int kWord>
MOETIER_ALWAYS_INLINE typename V::Int Nibbles(const uint8_t* lines, int part) {
  const typename V::Int line = V::Line(lines + 64 * (kWord / 2), part);
  return V::And(V::template Shift<-4 * (kWord % 2)>(line), V::SplatByte(0x0F));
}

// Bits of a line that holds kBits-bit fields of 8 / kBits words, moved to bit kTo; the caller
// masks.
template <class V, int kBits, int kWord, int kTo>
MOETIER_ALWAYS_INLINE typename V::Int FieldAt(const uint8_t* lines, int part) {
  constexpr int kPerLine = 8 / kBits;
  const typename V::Int line = V::Line(lines + 64 * (kWord / kPerLine), part);
  return V::template Shift<kTo - kBits*(kWord % kPerLine)>(line);
}

// Sixteen 6-bit fields of a row in three words.
template <class V>
struct PackedSixBits {
  typename V::Int w0, w1, w2;

  MOETIER_ALWAYS_INLINE void Load(const uint8_t* lines, int part) {
    w0 = V::Line(lines, part);
    w1 = V::Line(lines + 64, part);
    w2 = V::Line(lines + 128, part);
  }
  template <int kField>
  MOETIER_ALWAYS_INLINE typename V::Int Get() const {
    if constexpr (kField == 15) {
      return V::Or(V::template Shift<-30>(w0),
                   V::Or(V::template Shift<2>(V::template Shift<-30>(w1)),
                         V::template Shift<4>(V::template Shift<-30>(w2))));
    } else {
      const typename V::Int word = kField < 5 ? w0 : kField < 10 ? w1 : w2;
      return V::And(V::template Shift<-6 * (kField % 5)>(word), V::Splat(63));
    }
  }
};

// Defaults of the members that say how the bytes nest.
struct PlainFormat {
  static constexpr bool kXoredBytes = false;    // codes are signed bytes XOR 0x80
  static constexpr bool kSharedHeader = false;  // one line of two half lines before every two units
  static constexpr int kBodyBlocks = 1;
  static constexpr int kBodyHeaderBytes = 0;
};

template <class V>
struct FormatQ4_0 : PlainFormat {
  using Int = typename V::Int;
  static constexpr Step kStep = Step::kScaled;
  static constexpr int kUnitBlocks = 2;
  static constexpr int kHeaderBytes = 64;
  static constexpr int kBlockBytes = 256;
  static constexpr int kFit = 8;
  static constexpr int kOffset = -8;
  struct Unit {
    const uint8_t* scales;
  };
  static MOETIER_ALWAYS_INLINE void Open(Unit& unit, const uint8_t*, const uint8_t* header, int) {
    unit.scales = header;
  }
  static MOETIER_ALWAYS_INLINE typename V::Float Scale(const Unit& unit, uint32_t block, int part) {
    return V::HalfLine(unit.scales + 32 * block, part);
  }
  template <int kWord>
  static MOETIER_ALWAYS_INLINE Int Codes(const uint8_t* block, int part) {
    return Nibbles<V, kWord>(block, part);
  }
};

template <class V>
struct FormatQ8_0 : FormatQ4_0<V> {
  static constexpr bool kXoredBytes = true;
  static constexpr int kBlockBytes = 512;
  static constexpr int kFit = 1;
  static constexpr int kOffset = V::kByteOffset;
  template <int kWord>
  static MOETIER_ALWAYS_INLINE typename V::Int Codes(const uint8_t* block, int part) {
    return V::Line(block + 64 * kWord, part);
  }
};

template <class V>
struct FormatMxfp4 : FormatQ4_0<V> {
  using Unit = typename FormatQ4_0<V>::Unit;
  static constexpr int kUnitBlocks = 4;
  static constexpr int kFit = 4;
  static constexpr int kOffset = -12;
  static MOETIER_ALWAYS_INLINE typename V::Float Scale(const Unit& unit, uint32_t block, int part) {
    return V::ExponentScale(V::ByteQuarter(unit.scales + 16 * block, part));
  }
  template <int kWord>
  static MOETIER_ALWAYS_INLINE typename V::Int Codes(const uint8_t* block, int part) {
    static constexpr uint8_t kPlus12[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                            12, 11, 10, 9,  8,  6,  4,  0};
    return V::Lookup(V::Table(kPlus12), Nibbles<V, kWord>(block, part));
  }
};

template <class V>
struct FormatQ4K : PlainFormat {
  static constexpr Step kStep = Step::kScaledMinimum;
  static constexpr int kUnitBlocks = 8;
  static constexpr int kHeaderBytes = 256;
  static constexpr int kBlockBytes = 256;
  static constexpr int kFit = 8;
  static constexpr int kOffset = 0;
  // Unpacked once a superblock, so that the loop over blocks stays short.
  struct Unit {
    typename V::Float scales[8];
    typename V::Float minima[8];
  };
  static MOETIER_ALWAYS_INLINE void Open(Unit& unit, const uint8_t*, const uint8_t* header,
                                         int part) {
    const typename V::Float d = V::HalfLine(header, part);
    const typename V::Float dmin = V::HalfLine(header + 32, part);
    PackedSixBits<V> fields;
    fields.Load(header + 64, part);
    Unroll<8>([&]<int kBlock>() MOETIER_INLINE_LAMBDA {
      unit.scales[kBlock] = V::Multiply(d, V::ToFloat(fields.template Get<2 * kBlock>()));
      unit.minima[kBlock] = V::Multiply(dmin, V::ToFloat(fields.template Get<2 * kBlock + 1>()));
    });
  }
  static MOETIER_ALWAYS_INLINE typename V::Float Scale(const Unit& unit, uint32_t block, int) {
    return unit.scales[block];
  }
  static MOETIER_ALWAYS_INLINE typename V::Float Minimum(const Unit& unit, uint32_t block) {
    return unit.minima[block];
  }
  template <int kWord>
  static MOETIER_ALWAYS_INLINE typename V::Int Codes(const uint8_t* block, int part) {
    return Nibbles<V, kWord>(block, part);
  }
};

// One line of fifth bits, then the nibbles.
template <class V>
struct FormatQ5K : FormatQ4K<V> {
  static constexpr int kBlockBytes = 320;
  static constexpr int kFit = 4;
  template <int kWord>
  static MOETIER_ALWAYS_INLINE typename V::Int Codes(const uint8_t* block, int part) {
    return V::OrMasked(Nibbles<V, kWord>(block + 64, part), FieldAt<V, 1, kWord, 4>(block, part),
                       V::SplatByte(0x10));
  }
};

// One line of scales before every two blocks; a block is two lines of upper bits, then nibbles.
template <class V>
struct FormatQ6K : PlainFormat {
  using Int = typename V::Int;
  static constexpr Step kStep = Step::kHalves;
  static constexpr bool kSharedHeader = true;
  static constexpr int kUnitBlocks = 8;
  static constexpr int kHeaderBytes = 0;
  static constexpr int kBodyBlocks = 2;
  static constexpr int kBodyHeaderBytes = 64;
  static constexpr int kBlockBytes = 384;
  static constexpr int kFit = 2;
  static constexpr int kOffset = -32;
  struct Unit {
    typename V::Float d;
  };
  struct HalfScales {
    Int first, second;
  };
  static MOETIER_ALWAYS_INLINE void Open(Unit& unit, const uint8_t* shared, const uint8_t*,
                                         int part) {
    unit.d = V::HalfLine(shared, part);
  }
  static MOETIER_ALWAYS_INLINE typename V::Float Scale(const Unit& unit, uint32_t, int) {
    return unit.d;
  }
  template <int kBlockOfBody>
  static MOETIER_ALWAYS_INLINE HalfScales Halves(const Unit&, uint32_t, const uint8_t* body,
                                                 int part) {
    const Int line = V::Line(body, part);
    return {V::template ShiftSigned<24>(V::template Shift<24 - 16 * kBlockOfBody>(line)),
            V::template ShiftSigned<24>(V::template Shift<16 - 16 * kBlockOfBody>(line))};
  }
  static MOETIER_ALWAYS_INLINE Int Combine(const HalfScales& scales, Int first, Int second) {
    return V::Add(V::Multiply(scales.first, first), V::Multiply(scales.second, second));
  }
  template <int kWord>
  static MOETIER_ALWAYS_INLINE Int Codes(const uint8_t* block, int part) {
    return V::OrMasked(Nibbles<V, kWord>(block + 128, part), FieldAt<V, 2, kWord, 4>(block, part),
                       V::SplatByte(0x30));
  }
};

// One line of scales and minima before every two blocks; a block is two lines of 2-bit codes.
template <class V>
struct FormatQ2K : PlainFormat {
  using Int = typename V::Int;
  static constexpr Step kStep = Step::kHalvesMinimum;
  static constexpr int kUnitBlocks = 8;
  static constexpr int kHeaderBytes = 64;
  static constexpr int kBodyBlocks = 2;
  static constexpr int kBodyHeaderBytes = 64;
  static constexpr int kBlockBytes = 128;
  static constexpr int kFit = 4;
  static constexpr int kOffset = 0;
  struct Unit {
    typename V::Float d, dmin;
  };
  struct HalfScales {
    Int scales;         // 16-bit pairs: half dots of 2-bit codes fit 16 bits
    Int first, second;  // minima
  };
  static MOETIER_ALWAYS_INLINE void Open(Unit& unit, const uint8_t*, const uint8_t* header,
                                         int part) {
    unit.d = V::HalfLine(header, part);
    unit.dmin = V::HalfLine(header + 32, part);
  }
  static MOETIER_ALWAYS_INLINE typename V::Float Scale(const Unit& unit, uint32_t, int) {
    return unit.d;
  }
  static MOETIER_ALWAYS_INLINE typename V::Float Minimum(const Unit& unit, uint32_t) {
    return unit.dmin;
  }
  template <int kBlockOfBody>
  static MOETIER_ALWAYS_INLINE HalfScales Halves(const Unit&, uint32_t, const uint8_t* body,
                                                 int part) {
    const Int line = V::Line(body, part);
    const Int low = V::Splat(15);
    constexpr int kFirst = -16 * kBlockOfBody;
    return {V::JoinHalves(V::And(V::template Shift<kFirst>(line), low),
                          V::And(V::template Shift<kFirst - 8>(line), low)),
            V::And(V::template Shift<kFirst - 4>(line), low),
            V::And(V::template Shift<kFirst - 12>(line), low)};
  }
  static MOETIER_ALWAYS_INLINE Int Combine(const HalfScales& scales, Int first, Int second) {
    return V::AddPairs(V::IntZero(), scales.scales, V::JoinHalves(first, second));
  }
  template <int kWord>
  static MOETIER_ALWAYS_INLINE Int Codes(const uint8_t* block, int part) {
    return V::And(FieldAt<V, 2, kWord, 0>(block, part), V::SplatByte(3));
  }
};

// Three lines of 6-bit scales a superblock; a block is a line of third bits and two of 2-bit codes.
template <class V>
struct FormatQ3K : PlainFormat {
  using Int = typename V::Int;
  static constexpr Step kStep = Step::kHalves;
  static constexpr bool kSharedHeader = true;
  static constexpr int kUnitBlocks = 8;
  static constexpr int kHeaderBytes = 192;
  static constexpr int kBlockBytes = 192;
  static constexpr int kFit = 4;
  static constexpr int kOffset = -4;
  struct Unit {
    typename V::Float d;
    Int scales[8];  // 16-bit pairs: half dots of 3-bit codes fit 16 bits
  };
  using HalfScales = Int;
  static MOETIER_ALWAYS_INLINE void Open(Unit& unit, const uint8_t* shared, const uint8_t* header,
                                         int part) {
    unit.d = V::HalfLine(shared, part);
    PackedSixBits<V> fields;
    fields.Load(header, part);
    const Int offset = V::Splat(32);
    Unroll<8>([&]<int kBlock>() MOETIER_INLINE_LAMBDA {
      unit.scales[kBlock] = V::JoinHalves(V::Sub(fields.template Get<2 * kBlock>(), offset),
                                          V::Sub(fields.template Get<2 * kBlock + 1>(), offset));
    });
  }
  static MOETIER_ALWAYS_INLINE typename V::Float Scale(const Unit& unit, uint32_t, int) {
    return unit.d;
  }
  template <int kBlockOfBody>
  static MOETIER_ALWAYS_INLINE Int Halves(const Unit& unit, uint32_t block, const uint8_t*, int) {
    return unit.scales[block];
  }
  static MOETIER_ALWAYS_INLINE Int Combine(Int scales, Int first, Int second) {
    return V::AddPairs(V::IntZero(), scales, V::JoinHalves(first, second));
  }
  template <int kWord>
  static MOETIER_ALWAYS_INLINE Int Codes(const uint8_t* block, int part) {
    return V::OrMasked(V::And(FieldAt<V, 2, kWord, 0>(block + 64, part), V::SplatByte(3)),
                       FieldAt<V, 1, kWord, 2>(block, part), V::SplatByte(4));
  }
};

}  // namespace
}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_CPU_ROWS16_FORMATS_H_
