#include "kernels/cpu/elementwise.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

// A body that is inlined into a copy for another instruction set must be always_inline: only then
// do both compilers build it for the caller's set.
#define MOE_INLINE_BODY [[gnu::always_inline]] inline

namespace moetier::kernels {
namespace {

// __builtin_fmaf becomes one instruction where the function's target has it.
MOE_INLINE_BODY float Fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// 1.5 * 2^23, whose last bit is worth 1: x + kShift is x rounded to nearest even, with the integer
// in the low bits. Plain adds vectorise on every processor, rint does not.
constexpr float kShift = 12582912.0f;

// |x| <= 127.
MOE_INLINE_BODY int32_t RoundToInt(float x) {
  return std::bit_cast<int32_t>(x + kShift) - std::bit_cast<int32_t>(kShift);
}

// exp of x in [-87, 88]; any NaN gives a NaN. 2^n is made from n's bits, unsigned, so that a NaN's
// bits wrap without harm.
MOE_INLINE_BODY float ExpClamped(float x) {
  const float shifted = x * 1.44269504f + kShift;
  const float n = shifted - kShift;
  float r = Fma(n, -0.693145752f, x);
  r = Fma(n, -1.42860677e-6f, r);
  float p = 1.0f / 5040;
  p = Fma(p, r, 1.0f / 720);
  p = Fma(p, r, 1.0f / 120);
  p = Fma(p, r, 1.0f / 24);
  p = Fma(p, r, 1.0f / 6);
  p = Fma(p, r, 1.0f / 2);
  p = Fma(p, r, 1.0f);
  p = Fma(p, r, 1.0f);
  const uint32_t integer = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kShift);
  return p * std::bit_cast<float>((integer + 127) << 23);
}

MOE_INLINE_BODY float TimesSigmoid(float g, float z) {
  float x = -z;
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  return g / (1.0f + ExpClamped(x));
}

MOE_INLINE_BODY float SwiGlu(float g, float u) { return TimesSigmoid(g, g) * u; }

MOE_INLINE_BODY float GeGlu(float g, float u) {
  return TimesSigmoid(g, g * Fma(g * g, 0.0713548163f, 1.59576912f)) * u;
}

MOE_INLINE_BODY float SwiGluClamped(float g, float u) {
  g = g > 7.0f ? 7.0f : g;
  u = u > 7.0f ? 7.0f : u;
  u = u < -7.0f ? -7.0f : u;
  return TimesSigmoid(g, 1.702f * g) * (u + 1.0f);
}

MOE_INLINE_BODY void ActivateBody(Activation activation, const float* gate, const float* up,
                                  float* __restrict__ h) {
  switch (activation) {
    case Activation::kSwiGlu:
      for (uint32_t i = 0; i < kActivateWidth; ++i) h[i] = SwiGlu(gate[i], up[i]);
      return;
    case Activation::kGeGlu:
      for (uint32_t i = 0; i < kActivateWidth; ++i) h[i] = GeGlu(gate[i], up[i]);
      return;
    case Activation::kSwiGluClamped:
      for (uint32_t i = 0; i < kActivateWidth; ++i) h[i] = SwiGluClamped(gate[i], up[i]);
      return;
  }
}

MOE_INLINE_BODY void AddScaledBody(float weight, const float* y, float* __restrict__ out,
                                   size_t count) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (size_t i = 0; i < count; ++i) {
    const float sum = Fma(weight, y[i], out[i]);
    out[i] = sum == sum ? sum : kNan;
  }
}

// Bits of the largest magnitude. Compared as integers: they order as the magnitudes do, with
// infinity and then NaN on top, and such a maximum vectorises.
MOE_INLINE_BODY uint32_t LargestMagnitude(const float* values) {
  uint32_t largest = 0;
  for (uint32_t i = 0; i < kActivateWidth; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(values[i]) & 0x7FFFFFFFu);
  }
  return largest;
}

MOE_INLINE_BODY QuantisedBlock QuantiseBody(const float* values, int8_t* __restrict__ codes) {
  const uint32_t largest = LargestMagnitude(values);
  const float m = std::bit_cast<float>(largest);
  const bool finite = largest < 0x7F800000;
  if (!finite || m < 0x1p-100f) {  // below it 127 / m may overflow
    std::memset(codes, 0, kActivateWidth);
    const float scale = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    return {scale, scale, {0, 0}};
  }
  const float inverse = 127.0f / m;
  QuantisedBlock block{m / 127.0f, 0.0f, {0, 0}};
  std::array<int32_t, kActivateWidth> rounded;
  for (uint32_t i = 0; i < kActivateWidth; ++i) rounded[i] = RoundToInt(values[i] * inverse);
  for (uint32_t i = 0; i < kActivateWidth; ++i) codes[i] = static_cast<int8_t>(rounded[i]);
  for (uint32_t i = 0; i < 16; ++i) block.half_sums[0] += rounded[i];
  for (uint32_t i = 16; i < 32; ++i) block.half_sums[1] += rounded[i];
  block.scaled_sum = block.scale * static_cast<float>(block.half_sums[0] + block.half_sums[1]);
  return block;
}

QuantisedBlock QuantisePortable(const float* values, int8_t* codes) {
  return QuantiseBody(values, codes);
}
void ActivatePortable(Activation activation, const float* gate, const float* up, float* h) {
  ActivateBody(activation, gate, up, h);
}
void AddScaledPortable(float weight, const float* y, float* out, size_t count) {
  AddScaledBody(weight, y, out, count);
}

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] QuantisedBlock QuantiseAvx2(const float* values, int8_t* codes) {
  return QuantiseBody(values, codes);
}
[[gnu::target("avx2,fma")]] void ActivateAvx2(Activation activation, const float* gate,
                                              const float* up, float* h) {
  ActivateBody(activation, gate, up, h);
}
[[gnu::target("avx2,fma")]] void AddScaledAvx2(float weight, const float* y, float* out,
                                               size_t count) {
  AddScaledBody(weight, y, out, count);
}
#else
constexpr auto QuantiseAvx2 = QuantisePortable;
constexpr auto ActivateAvx2 = ActivatePortable;
constexpr auto AddScaledAvx2 = AddScaledPortable;
#endif

}  // namespace

ElementwiseCode BestElementwiseCode() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return ElementwiseCode::kAvx2;
  }
#endif
  return ElementwiseCode::kPortable;
}

QuantisedBlock QuantiseBlock(ElementwiseCode code, const float* values, int8_t* codes) {
  return code == ElementwiseCode::kAvx2 ? QuantiseAvx2(values, codes)
                                        : QuantisePortable(values, codes);
}

void Activate(ElementwiseCode code, Activation activation, const float* gate, const float* up,
              float* h) {
  if (code == ElementwiseCode::kAvx2) {
    ActivateAvx2(activation, gate, up, h);
  } else {
    ActivatePortable(activation, gate, up, h);
  }
}

void AddScaled(ElementwiseCode code, float weight, const float* y, float* out, size_t count) {
  if (code == ElementwiseCode::kAvx2) {
    AddScaledAvx2(weight, y, out, count);
  } else {
    AddScaledPortable(weight, y, out, count);
  }
}

}  // namespace moetier::kernels
