#ifndef MOETIER_TESTS_UNIT_KERNELS_RANDOM_EXPERT_H_
#define MOETIER_TESTS_UNIT_KERNELS_RANDOM_EXPERT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "kernels/expert_shape.h"
#include "kernels/layout.h"

// Seeded experts and hidden rows for the kernel tests, and how far two answers differ.

namespace moetier::kernels {

inline constexpr std::array kKernelTypes = {
    WeightType::kF32,  WeightType::kF16,   WeightType::kBF16,   WeightType::kQ4_0,
    WeightType::kQ4_1, WeightType::kQ5_0,  WeightType::kQ5_1,   WeightType::kQ8_0,
    WeightType::kQ2_K, WeightType::kQ3_K,  WeightType::kQ4_K,   WeightType::kQ5_K,
    WeightType::kQ6_K, WeightType::kMXFP4, WeightType::kIQ4_NL, WeightType::kIQ4_XS};

std::vector<WeightType> Rows16Types();

enum class BlockKind : uint8_t {
  kAnyBits,  // every byte random; scales may be NaN
  kExtreme,  // finite scales and float weights over their whole range
  kTame,     // weights of a size that a trained matrix has
};

std::vector<std::byte> RandomBlocks(WeightType type, size_t blocks, BlockKind kind,
                                    std::mt19937_64& random);

// An expert that owns its source bytes.
struct RandomExpert {
  RandomExpert(const ExpertShape& expert_shape, BlockKind kind, uint64_t seed);
  [[nodiscard]] SourceExpert source() const;

  ExpertShape shape;
  std::array<std::vector<std::byte>, kPartRoles> parts;
};

// A record in memory that is aligned as a slot is.
class AlignedRecord {
 public:
  explicit AlignedRecord(size_t bytes);
  [[nodiscard]] std::span<std::byte> bytes() { return {start_, size_}; }

 private:
  std::vector<std::byte> storage_;
  std::byte* start_;
  size_t size_;
};

AlignedRecord PackedRecord(const RandomExpert& expert, const RecordLayout& layout);

// An expert with a bias in each part, gate and up in MXFP4, down in Q8_0.
ExpertShape BiasedShape(uint32_t hidden, uint32_t ffn, Activation activation);

using Rows = std::vector<std::vector<float>>;

std::vector<float> NormalRow(size_t columns, std::mt19937_64& random);
Rows NormalRows(size_t count, size_t columns, uint64_t seed);

// Values of unlike bits; another length counts as one more.
size_t DifferentBits(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace moetier::kernels

#endif  // MOETIER_TESTS_UNIT_KERNELS_RANDOM_EXPERT_H_
