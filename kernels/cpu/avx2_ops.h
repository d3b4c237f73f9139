#ifndef MOETIER_KERNELS_CPU_AVX2_OPS_H_
#define MOETIER_KERNELS_CPU_AVX2_OPS_H_

#include <immintrin.h>

#include <cstdint>

// What the kernel templates need of AVX2, FMA and F16C. Only for avx2_*.cc.

namespace moetier::kernels {
namespace {

struct Avx2 {
  using Int = __m256i;
  using Float = __m256;
  static constexpr int kRows = 8;   // of one vector
  static constexpr int kParts = 2;  // vectors that make a group of 16 rows

  // Q8_0's codes are used as signed ones: unsigned bytes would saturate 16 bits.
  static constexpr int kByteOffset = 0;

  // Integer dot of 4-byte words. kFit words' sums of two products stay within 16 bits.
  template <int kFit>
  struct Dot {
    Int sum;
    Int narrow;
    void Start(Int from) { sum = from; }
    template <int kWord>
    void Add(Int unsigned_codes, Int x) {
      AddNarrow<kWord>(_mm256_maddubs_epi16(unsigned_codes, x));
    }
    // 128 * 127 * 2 fits 16 bits: |code| times x with the code's sign.
    template <int kWord>
    void AddBytes(Int xored_codes, Int x) {
      const Int codes = _mm256_xor_si256(xored_codes, _mm256_set1_epi8(static_cast<char>(0x80)));
      AddNarrow<kWord>(_mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(x, codes)));
    }
    template <int kWord>
    void AddNarrow(Int products) {
      narrow = kWord % kFit == 0 ? products : _mm256_add_epi16(narrow, products);
      if constexpr (kWord % kFit == kFit - 1) {
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(narrow, _mm256_set1_epi16(1)));
      }
    }
    Int Finish() const { return sum; }
  };

  static Int Line(const uint8_t* line, int part) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(line + 32 * part));
  }
  static Float HalfLine(const uint8_t* half, int part) {
    return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(half + 16 * part)));
  }
  static Int ByteQuarter(const uint8_t* quarter, int part) {
    return _mm256_cvtepu8_epi32(
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(quarter + 8 * part)));
  }
  static Int Word(const void* word) {
    int32_t value;
    __builtin_memcpy(&value, word, sizeof(value));
    return _mm256_set1_epi32(value);
  }
  static Int Splat(int32_t value) { return _mm256_set1_epi32(value); }
  static Int SplatByte(uint8_t value) { return _mm256_set1_epi8(static_cast<char>(value)); }
  static Float SplatFloat(float value) { return _mm256_set1_ps(value); }
  static Int IntZero() { return _mm256_setzero_si256(); }
  static Float FloatZero() { return _mm256_setzero_ps(); }

  // Shifts of 32-bit lanes; kBits < 0 shifts right.
  template <int kBits>
  static Int Shift(Int v) {
    if constexpr (kBits > 0) {
      return _mm256_slli_epi32(v, kBits);
    } else if constexpr (kBits < 0) {
      return _mm256_srli_epi32(v, -kBits);
    } else {
      return v;
    }
  }
  template <int kBits>
  static Int ShiftSigned(Int v) {
    return _mm256_srai_epi32(v, kBits);
  }
  static Int And(Int a, Int b) { return _mm256_and_si256(a, b); }
  static Int Or(Int a, Int b) { return _mm256_or_si256(a, b); }
  // a | (b & c)
  static Int OrMasked(Int a, Int b, Int c) { return Or(a, And(b, c)); }
  static Int Add(Int a, Int b) { return _mm256_add_epi32(a, b); }
  static Int Sub(Int a, Int b) { return _mm256_sub_epi32(a, b); }
  static Int Multiply(Int a, Int b) { return _mm256_mullo_epi32(a, b); }
  // from + a.low * b.low + a.high * b.high of signed 16-bit halves.
  static Int AddPairs(Int from, Int a, Int b) { return Add(from, _mm256_madd_epi16(a, b)); }
  // The low halves of a and b side by side in 32 bits, a below.
  static Int JoinHalves(Int a, Int b) {
    return _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xAA);
  }
  static Int Lookup(Int table, Int index) { return _mm256_shuffle_epi8(table, index); }
  static Int Table(const uint8_t (&bytes)[16]) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
  }

  // 2^(e - 128) as f32, subnormal for e < 2.
  static Float ExponentScale(Int e) {
    const Int normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const Int subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const Int small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, small));
  }

  static Float ToFloat(Int v) { return _mm256_cvtepi32_ps(v); }
  static Float AsFloat(Int v) { return _mm256_castsi256_ps(v); }
  static Float Multiply(Float a, Float b) { return _mm256_mul_ps(a, b); }
  static Float Add(Float a, Float b) { return _mm256_add_ps(a, b); }
  static Float MultiplyAdd(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
  // c - a * b, rounded once
  static Float SubtractProduct(Float a, Float b, Float c) { return _mm256_fnmadd_ps(a, b, c); }

  // f16 pairs: `low` from the low halves of the words, `high` from the high ones.
  static void HalvesToFloat(Int pairs, Float& low, Float& high) {
    alignas(32) static constexpr uint8_t kSplit[32] = {0,  1,  4,  5,  8,  9, 12, 13, 2,  3, 6,
                                                       7,  10, 11, 14, 15, 0, 1,  4,  5,  8, 9,
                                                       12, 13, 2,  3,  6,  7, 10, 11, 14, 15};
    const Int lanes =
        _mm256_shuffle_epi8(pairs, _mm256_load_si256(reinterpret_cast<const __m256i*>(kSplit)));
    const Int split = _mm256_permute4x64_epi64(lanes, 0xD8);
    low = _mm256_cvtph_ps(_mm256_castsi256_si128(split));
    high = _mm256_cvtph_ps(_mm256_extracti128_si256(split, 1));
  }

  static void Store(float* out, Float v) { _mm256_storeu_ps(out, v); }
};

}  // namespace
}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_CPU_AVX2_OPS_H_
