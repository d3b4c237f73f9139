#include "tiers/store/expert_scan.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"

namespace moetier {
namespace {

// Where a block's f16 scale and minimum stand, in bytes from its start; the same place twice where
// there is one only. Public GGUF documentation; by ggml's numbers, as not all have names here.
struct HalfPlaces {
  uint32_t first = 0;
  uint32_t second = 0;
};

std::optional<HalfPlaces> PlacesOf(uint32_t ggml_type) {
  switch (ggml_type) {
    case 2:   // Q4_0
    case 6:   // Q5_0
    case 8:   // Q8_0
    case 16:  // IQ2_XXS
    case 17:  // IQ2_XS
    case 18:  // IQ3_XXS
    case 19:  // IQ1_S
    case 20:  // IQ4_NL
    case 21:  // IQ3_S
    case 22:  // IQ2_S
    case 23:  // IQ4_XS
      return HalfPlaces{0, 0};
    case 3:   // Q4_1
    case 7:   // Q5_1
    case 12:  // Q4_K
    case 13:  // Q5_K
      return HalfPlaces{0, 2};
    case 10:  // Q2_K
      return HalfPlaces{80, 82};
    case 11:  // Q3_K
      return HalfPlaces{108, 108};
    case 14:  // Q6_K
      return HalfPlaces{208, 208};
    default:
      return std::nullopt;
  }
}

template <typename Bits>
Bits Load(const std::byte* from) {
  Bits bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}

// Infinite or NaN: all exponent bits are set.
template <uint32_t kExponent, typename Bits>
bool NotFinite(const std::byte* from) {
  return (Load<Bits>(from) & kExponent) == kExponent;
}

// The number of the first of `count` elements, `stride` bytes apart, that is not finite.
template <uint32_t kExponent, typename Bits>
std::optional<uint64_t> FindNotFinite(const std::byte* from, uint64_t count, uint64_t stride) {
  for (uint64_t i = 0; i < count; ++i) {
    if (NotFinite<kExponent, Bits>(from + i * stride)) return i;
  }
  return std::nullopt;
}

constexpr uint32_t kF32Exponent = 0x7F800000;
constexpr uint32_t kF16Exponent = 0x7C00;
constexpr uint32_t kBf16Exponent = 0x7F80;

std::optional<uint64_t> FindBadWeight(kernels::WeightType type, std::span<const std::byte> bytes,
                                      uint64_t blocks, uint64_t block_bytes) {
  switch (type) {
    case kernels::WeightType::kF32:
      return FindNotFinite<kF32Exponent, uint32_t>(bytes.data(), blocks, block_bytes);
    case kernels::WeightType::kF16:
      return FindNotFinite<kF16Exponent, uint16_t>(bytes.data(), blocks, block_bytes);
    case kernels::WeightType::kBF16:
      return FindNotFinite<kBf16Exponent, uint16_t>(bytes.data(), blocks, block_bytes);
    default:
      break;
  }
  const auto places = PlacesOf(Raw(type));
  if (!places) return std::nullopt;
  const auto find = [&](uint32_t place) {
    return FindNotFinite<kF16Exponent, uint16_t>(bytes.data() + place, blocks, block_bytes);
  };
  const auto first = find(places->first);
  const auto second = places->second == places->first ? first : find(places->second);
  if (!first || !second) return first ? first : second;
  return std::min(*first, *second);
}

}  // namespace

Result<ExpertScan> ScanExpertWeights(kernels::WeightType type, std::span<const std::byte> bytes,
                                     std::string_view tensor, ExpertIndex expert) {
  const kernels::WeightTypeInfo& info = kernels::Info(type);
  const uint64_t blocks = bytes.size() / info.block_bytes;
  MOE_CHECK(bytes.size() % info.block_bytes == 0, "{} bytes of {} are no whole blocks",
            bytes.size(), tensor);
  if (const auto bad = FindBadWeight(type, bytes, blocks, info.block_bytes)) {
    const bool plain = info.block_weights == 1;
    return Error{
        ErrorCode::kDataLoss, Reason::kBadGguf,
        fmt::format("{} expert {}: {} {} of {} ({}) {} not finite; fetch the file again or "
                    "use another quantisation",
                    tensor, Raw(expert), plain ? "weight" : "block", *bad, blocks, info.name,
                    plain ? "is" : "has a scale that is")};
  }
  ExpertScan scan;
  if (type != kernels::WeightType::kMXFP4) return scan;
  for (uint64_t block = blocks; block-- > 0;) {
    if (bytes[block * info.block_bytes] != std::byte{0xFF}) continue;
    ++scan.largest_exponents;
    scan.first_largest_exponent = block;
  }
  return scan;
}

}  // namespace moetier
