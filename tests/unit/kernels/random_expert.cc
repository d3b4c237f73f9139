#include "tests/unit/kernels/random_expert.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/bytes.h"

namespace moetier::kernels {
namespace {

// An f16 scale in a block: its offset, and the sign and exponent bits that make tame weights, of
// about 0.05 once the block's own scales and codes multiply it.
struct HalfField {
  size_t offset;
  uint16_t tame;
};

constexpr uint16_t kNegative = 0x8000;

constexpr uint16_t TamePower(int power, uint16_t sign = 0) {
  return static_cast<uint16_t>((15 + power) << 10 | sign);
}

std::vector<HalfField> HalfFields(WeightType type) {
  switch (type) {
    case WeightType::kQ4_0:
      return {{0, TamePower(-6)}};
    case WeightType::kQ4_1:
      return {{0, TamePower(-7)}, {2, TamePower(-4, kNegative)}};
    case WeightType::kQ5_0:
      return {{0, TamePower(-8)}};
    case WeightType::kQ5_1:
      return {{0, TamePower(-8)}, {2, TamePower(-4, kNegative)}};
    case WeightType::kQ8_0:
    case WeightType::kIQ4_NL:
      return {{0, TamePower(-11)}};
    case WeightType::kQ2_K:
      return {{80, TamePower(-9)}, {82, TamePower(-8)}};
    case WeightType::kQ3_K:
      return {{108, TamePower(-10)}};
    case WeightType::kQ4_K:
      return {{0, TamePower(-12)}, {2, TamePower(-9)}};
    case WeightType::kQ5_K:
      return {{0, TamePower(-13)}, {2, TamePower(-9)}};
    case WeightType::kQ6_K:
      return {{208, TamePower(-14)}};
    case WeightType::kIQ4_XS:
      return {{0, TamePower(-14)}};
    default:
      return {};
  }
}

uint16_t ExtremeHalf(uint64_t bits) {
  const auto half = static_cast<uint16_t>(bits);
  return (half & 0x7C00) == 0x7C00 ? static_cast<uint16_t>(half & 0xBFFF) : half;
}

// Float weights by their f32 bits: any finite pattern, or +-2^-8 .. 2^-4.
uint32_t FloatBits(BlockKind kind, uint64_t bits) {
  const auto word = static_cast<uint32_t>(bits);
  if (kind == BlockKind::kTame) {
    return (word & 0x807FFFFF) | static_cast<uint32_t>(119 + (bits >> 32) % 4) << 23;
  }
  return (word & 0x7F800000) == 0x7F800000 ? word & 0xBFFFFFFF : word;
}

uint16_t HalfWeight(BlockKind kind, uint64_t bits) {
  if (kind == BlockKind::kExtreme) return ExtremeHalf(bits);
  return static_cast<uint16_t>((bits & 0x83FF) | (7 + (bits >> 16) % 4) << 10);
}

void FixScales(WeightType type, BlockKind kind, std::byte* block, std::mt19937_64& random) {
  for (const HalfField& field : HalfFields(type)) {
    const uint64_t bits = random();
    const auto half = kind == BlockKind::kTame ? static_cast<uint16_t>(field.tame | (bits & 1023))
                                               : ExtremeHalf(bits);
    std::memcpy(block + field.offset, &half, sizeof half);
  }
  const uint32_t word = FloatBits(kind, random());
  const auto upper = static_cast<uint16_t>(word >> 16);
  const uint16_t half = HalfWeight(kind, random());
  if (type == WeightType::kF32) std::memcpy(block, &word, sizeof word);
  if (type == WeightType::kBF16) std::memcpy(block, &upper, sizeof upper);
  if (type == WeightType::kF16) std::memcpy(block, &half, sizeof half);
  if (type == WeightType::kMXFP4 && kind == BlockKind::kTame) {
    block[0] = static_cast<std::byte>(121 + random() % 3);
  }
}

}  // namespace

std::vector<WeightType> Rows16Types() {
  std::vector<WeightType> types;
  for (const WeightType type : kKernelTypes) {
    if (Info(type).has_rows16) types.push_back(type);
  }
  return types;
}

std::vector<std::byte> RandomBlocks(WeightType type, size_t blocks, BlockKind kind,
                                    std::mt19937_64& random) {
  const size_t block_bytes = Info(type).block_bytes;
  std::vector<std::byte> bytes(blocks * block_bytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  if (kind == BlockKind::kAnyBits) return bytes;
  for (size_t b = 0; b < blocks; ++b) FixScales(type, kind, &bytes[b * block_bytes], random);
  return bytes;
}

RandomExpert::RandomExpert(const ExpertShape& expert_shape, BlockKind kind, uint64_t seed)
    : shape(expert_shape) {
  std::mt19937_64 random(seed);
  const std::array<WeightType, kPartRoles> types = {
      shape.gate, shape.up, shape.down, WeightType::kF32, WeightType::kF32, WeightType::kF32};
  const auto bytes = SourceBytes(shape);
  for (size_t role = 0; role < kPartRoles; ++role) {
    parts[role] =
        RandomBlocks(types[role], bytes[role] / Info(types[role]).block_bytes, kind, random);
  }
}

SourceExpert RandomExpert::source() const {
  SourceExpert source;
  for (size_t role = 0; role < kPartRoles; ++role) source.parts[role] = parts[role];
  return source;
}

AlignedRecord::AlignedRecord(size_t bytes) : storage_(bytes + 64), size_(bytes) {
  const auto base = reinterpret_cast<uintptr_t>(storage_.data());
  start_ = storage_.data() + (AlignUp(base, 64) - base);
}

AlignedRecord PackedRecord(const RandomExpert& expert, const RecordLayout& layout) {
  AlignedRecord record(layout.bytes);
  std::memset(record.bytes().data(), 0xA5, layout.bytes);  // whatever stays was not written
  PackRecord(layout, expert.source(), record.bytes());
  return record;
}

std::vector<float> NormalRow(size_t columns, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> row(columns);
  for (float& value : row) value = normal(random);
  return row;
}

ExpertShape BiasedShape(uint32_t hidden, uint32_t ffn, Activation activation) {
  return {.hidden = hidden,
          .ffn = ffn,
          .activation = activation,
          .gate = WeightType::kMXFP4,
          .up = WeightType::kMXFP4,
          .down = WeightType::kQ8_0,
          .gate_bias = true,
          .up_bias = true,
          .down_bias = true};
}

Rows NormalRows(size_t count, size_t columns, uint64_t seed) {
  std::mt19937_64 random(seed);
  Rows rows;
  for (size_t t = 0; t < count; ++t) rows.push_back(NormalRow(columns, random));
  return rows;
}

size_t DifferentBits(const std::vector<float>& a, const std::vector<float>& b) {
  size_t different = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) ++different;
  }
  return different;
}

}  // namespace moetier::kernels
