#ifndef MOETIER_KERNELS_CPU_AVX512_OPS_H_
#define MOETIER_KERNELS_CPU_AVX512_OPS_H_

#include <immintrin.h>

#include <cstdint>

// What the kernel templates need of AVX-512 with VNNI. Only for avx512_*.cc.

namespace moetier::kernels {
namespace {

struct Avx512 {
  using Int = __m512i;
  using Float = __m512;
  static constexpr int kRows = 16;  // of one vector
  static constexpr int kParts = 1;  // vectors that make a group of 16 rows

  // The integer sum of one block starts here where Q8_0's codes are read as unsigned.
  static constexpr int kByteOffset = -128;

  // Integer dot of 4-byte words; kFit does not matter here.
  template <int kFit>
  struct Dot {
    Int sum;
    void Start(Int from) { sum = from; }
    template <int kWord>
    void Add(Int unsigned_codes, Int x) {
      sum = _mm512_dpbusd_epi32(sum, unsigned_codes, x);
    }
    template <int kWord>
    void AddBytes(Int xored_codes, Int x) {
      sum = _mm512_dpbusd_epi32(sum, xored_codes, x);
    }
    Int Finish() const { return sum; }
  };

  static Int Line(const uint8_t* line, int part) { return _mm512_load_si512(line + 64 * part); }
  static Float HalfLine(const uint8_t* half, int part) {
    return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(half + 32 * part)));
  }
  static Int ByteQuarter(const uint8_t* quarter, int part) {
    return _mm512_cvtepu8_epi32(
        _mm_load_si128(reinterpret_cast<const __m128i*>(quarter + 16 * part)));
  }
  static Int Word(const void* word) {
    int32_t value;
    __builtin_memcpy(&value, word, sizeof(value));
    return _mm512_set1_epi32(value);
  }
  static Int Splat(int32_t value) { return _mm512_set1_epi32(value); }
  static Int SplatByte(uint8_t value) { return _mm512_set1_epi8(static_cast<char>(value)); }
  static Float SplatFloat(float value) { return _mm512_set1_ps(value); }
  static Int IntZero() { return _mm512_setzero_si512(); }
  static Float FloatZero() { return _mm512_setzero_ps(); }

  // Shifts of 32-bit lanes; kBits < 0 shifts right.
  template <int kBits>
  static Int Shift(Int v) {
    if constexpr (kBits > 0) {
      return _mm512_slli_epi32(v, kBits);
    } else if constexpr (kBits < 0) {
      return _mm512_srli_epi32(v, -kBits);
    } else {
      return v;
    }
  }
  template <int kBits>
  static Int ShiftSigned(Int v) {
    return _mm512_srai_epi32(v, kBits);
  }
  static Int And(Int a, Int b) { return _mm512_and_si512(a, b); }
  static Int Or(Int a, Int b) { return _mm512_or_si512(a, b); }
  // a | (b & c)
  static Int OrMasked(Int a, Int b, Int c) { return _mm512_ternarylogic_epi32(a, b, c, 0xF8); }
  static Int Add(Int a, Int b) { return _mm512_add_epi32(a, b); }
  static Int Sub(Int a, Int b) { return _mm512_sub_epi32(a, b); }
  static Int Multiply(Int a, Int b) { return _mm512_mullo_epi32(a, b); }
  // from + a.low * b.low + a.high * b.high of signed 16-bit halves.
  static Int AddPairs(Int from, Int a, Int b) { return _mm512_dpwssd_epi32(from, a, b); }
  // The low halves of a and b side by side in 32 bits, a below.
  static Int JoinHalves(Int a, Int b) {
    return _mm512_mask_blend_epi16(0xAAAAAAAAU, a, _mm512_slli_epi32(b, 16));
  }
  static Int Lookup(Int table, Int index) { return _mm512_shuffle_epi8(table, index); }
  static Int Table(const uint8_t (&bytes)[16]) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
  }

  // 2^(e - 128) as f32, subnormal for e < 2.
  static Float ExponentScale(Int e) {
    const Int normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    const __mmask16 small = _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2));
    return _mm512_castsi512_ps(
        _mm512_mask_sllv_epi32(normal, small, _mm512_set1_epi32(0x00200000), e));
  }

  static Float ToFloat(Int v) { return _mm512_cvtepi32_ps(v); }
  static Float AsFloat(Int v) { return _mm512_castsi512_ps(v); }
  static Float Multiply(Float a, Float b) { return _mm512_mul_ps(a, b); }
  static Float Add(Float a, Float b) { return _mm512_add_ps(a, b); }
  static Float MultiplyAdd(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
  // c - a * b, rounded once
  static Float SubtractProduct(Float a, Float b, Float c) { return _mm512_fnmadd_ps(a, b, c); }

  // f16 pairs: `low` from the low halves of the words, `high` from the high ones.
  static void HalvesToFloat(Int pairs, Float& low, Float& high) {
    alignas(64) static constexpr uint16_t kSplit[32] = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20,
                                                        22, 24, 26, 28, 30, 1,  3,  5,  7,  9,  11,
                                                        13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
    const Int split = _mm512_permutexvar_epi16(_mm512_load_si512(kSplit), pairs);
    low = _mm512_cvtph_ps(_mm512_castsi512_si256(split));
    high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(split, 1));
  }

  static void Store(float* out, Float v) { _mm512_storeu_ps(out, v); }
};

}  // namespace
}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_CPU_AVX512_OPS_H_
