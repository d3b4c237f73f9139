#include "daemon/transport/hidden_rows.h"

#include <bit>
#include <cstddef>
#include <cstring>

namespace moetier {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire's byte order is copied");

constexpr uint32_t kExponentMask = 0x7F800000;

float FromHalf(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = (half >> 10) & 0x1Fu;
  const uint32_t fraction = half & 0x3FFu;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24 is exact in f32
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  const uint32_t wide = exponent == 31 ? 255u : exponent + 112u;  // 112 = 127 - 15, the biases
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

float FromBFloat(uint16_t value) { return std::bit_cast<float>(uint32_t{value} << 16); }

template <typename Convert>
void DecodeWords(std::span<const std::byte> bytes, std::span<float> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t word;
    std::memcpy(&word, bytes.data() + 2 * i, sizeof(word));
    out[i] = convert(word);
  }
}

bool IsFinite(float value) {
  return (std::bit_cast<uint32_t>(value) & kExponentMask) != kExponentMask;
}

}  // namespace

std::optional<uint32_t> BytesPerValue(HiddenType type) {
  switch (type) {
    case HiddenType::kF32:
      return 4;
    case HiddenType::kF16:
    case HiddenType::kBF16:
      return 2;
  }
  return std::nullopt;
}

std::vector<float> DecodeValues(HiddenType type, std::span<const std::byte> bytes) {
  if (type == HiddenType::kF32) {
    std::vector<float> values(bytes.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
  }
  std::vector<float> values(bytes.size() / 2);
  if (type == HiddenType::kF16) {
    DecodeWords(bytes, values, FromHalf);
  } else {
    DecodeWords(bytes, values, FromBFloat);
  }
  return values;
}

std::optional<size_t> FindNonFinite(std::span<const float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!IsFinite(values[i])) return i;
  }
  return std::nullopt;
}

}  // namespace moetier
