#ifndef MOETIER_KERNELS_CUDA_DEVICE_MATH_H_
#define MOETIER_KERNELS_CUDA_DEVICE_MATH_H_

#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/cuda/expert_kernels.h"
#include "kernels/cuda/simt/simt.h"

// The canonical arithmetic (ARCHITECTURE.md) on a GPU: every f32 operation is spelt as the one
// instruction that it is. Device code, C++17.

namespace moetier::kernels::cuda {

inline constexpr uint32_t kAllLanes = 0xFFFFFFFF;

// 1.5 * 2^23, whose last bit is worth 1: x + kRoundShift is x rounded to nearest even, with the
// integer in the low bits.
inline constexpr float kRoundShift = 12582912.0f;
inline constexpr int32_t kRoundShiftBits = 0x4B400000;

__device__ __forceinline__ float FloatOf(int32_t value) { return __int2float_rn(value); }

// The same for a value from -2^22 to 2^22, where it is exact: two additions, of which a GPU does
// four to eight times as many as conversions.
__device__ __forceinline__ float FloatOfSmall(int32_t value) {
  return __fsub_rn(__int_as_float(value + kRoundShiftBits), kRoundShift);
}

// A half's bits as f32, exact.
__device__ __forceinline__ float HalfToFloat(uint32_t bits) {
#if defined(__CUDACC__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<uint16_t>(bits)));
  return value;
#else
  const uint32_t sign = bits >> 15 << 31;
  const uint32_t exponent = bits >> 10 & 31;
  const uint32_t fraction = bits & 1023;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
    const float magnitude = __fmul_rn(FloatOf(static_cast<int32_t>(fraction)), 1.0f / 16777216);
    return __uint_as_float(sign | __float_as_uint(magnitude));
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return __uint_as_float(sign | wide << 23 | fraction << 13);
#endif
}

// 2^(e - 128): the scale of MXFP4, whose codes count in halves. 255 is 2^127, not NaN.
__device__ __forceinline__ float ExponentScale(uint32_t e) {
  return __uint_as_float(e < 2 ? 0x00200000U << e : (e - 1) << 23);
}

__device__ __forceinline__ float OneNan(float value) {
  return value == value ? value : __uint_as_float(0x7FC00000);
}

// exp of x in [-87, 88]; a NaN gives a NaN. 2^n is made from n's bits, unsigned, so that a NaN's
// bits wrap without harm.
__device__ __forceinline__ float ExpClamped(float x) {
  const float shifted = __fadd_rn(__fmul_rn(x, 1.44269504f), kRoundShift);
  const float n = __fsub_rn(shifted, kRoundShift);
  float r = __fmaf_rn(n, -0.693145752f, x);
  r = __fmaf_rn(n, -1.42860677e-6f, r);
  float p = 1.0f / 5040;
  p = __fmaf_rn(p, r, 1.0f / 720);
  p = __fmaf_rn(p, r, 1.0f / 120);
  p = __fmaf_rn(p, r, 1.0f / 24);
  p = __fmaf_rn(p, r, 1.0f / 6);
  p = __fmaf_rn(p, r, 1.0f / 2);
  p = __fmaf_rn(p, r, 1.0f);
  p = __fmaf_rn(p, r, 1.0f);
  const uint32_t power = __float_as_uint(shifted) - static_cast<uint32_t>(kRoundShiftBits);
  return __fmul_rn(p, __uint_as_float((power + 127) << 23));
}

// g times the logistic function of z.
__device__ __forceinline__ float TimesSigmoid(float g, float z) {
  float x = -z;
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  return __fdiv_rn(g, __fadd_rn(1.0f, ExpClamped(x)));
}

__device__ __forceinline__ float Activate(Activation activation, float g, float u) {
  if (activation == Activation::kSwiGlu) return __fmul_rn(TimesSigmoid(g, g), u);
  if (activation == Activation::kGeGlu) {
    const float slope = __fmaf_rn(__fmul_rn(g, g), 0.0713548163f, 1.59576912f);
    return __fmul_rn(TimesSigmoid(g, __fmul_rn(g, slope)), u);
  }
  g = g > 7.0f ? 7.0f : g;
  u = u > 7.0f ? 7.0f : u;
  u = u < -7.0f ? -7.0f : u;
  return __fmul_rn(TimesSigmoid(g, __fmul_rn(1.702f, g)), __fadd_rn(u, 1.0f));
}

// A whole warp stores one block of 32 activations, a value a lane, and quantises it.
__device__ __forceinline__ void StorePrepared(const PreparedRows& out, uint32_t row, uint32_t block,
                                              float value) {
  const uint32_t lane = threadIdx.x % 32;
  const size_t at = size_t{row} * out.blocks + block;
  out.values[32 * at + lane] = value;
  // As integers magnitudes order as they do as floats, infinity and then NaN on top.
  const uint32_t largest = __reduce_max_sync(kAllLanes, __float_as_uint(value) & 0x7FFFFFFFU);
  const float m = __uint_as_float(largest);
  const bool finite = largest < 0x7F800000U;
  const bool zero = !finite || largest < 0x0D800000U;  // 2^-100: below it 127 / m may overflow
  int32_t code = 0;
  if (!zero) {
    const float scaled = __fmul_rn(value, __fdiv_rn(127.0f, m));
    code = __float_as_int(__fadd_rn(scaled, kRoundShift)) - kRoundShiftBits;
  }
  out.codes[32 * at + lane] = static_cast<int8_t>(code);
  int32_t half = code;
  for (int bits = 8; bits > 0; bits /= 2) half += __shfl_xor_sync(kAllLanes, half, bits);
  const int32_t other = __shfl_xor_sync(kAllLanes, half, 16);
  if (lane != 0) return;
  const float scale = zero ? (finite ? 0.0f : __uint_as_float(0x7FC00000)) : __fdiv_rn(m, 127.0f);
  out.scales[at] = scale;
  out.scaled_sums[at] = zero ? scale : __fmul_rn(scale, FloatOf(half + other));
  out.half_sums[2 * at] = half;
  out.half_sums[2 * at + 1] = other;
}

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_DEVICE_MATH_H_
