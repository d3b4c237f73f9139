#include <algorithm>
#include <catch2/catch.hpp>

#include "kernels/cuda/expert_kernels.h"
#include "kernels/cuda/simt/sanitizers.h"
#include "tests/unit/cuda/layer_check.h"

// The kernels that take their weights through shared memory: the reference's bits, as the others.

namespace moetier::kernels::cuda {
namespace {

constexpr auto kMapped = KernelDevice::Memory::kMapped;

// As in the tests of the direct ones.
std::vector<WeightType> TestedTypes() {
  if (!simt::kUnderThreadSanitizer) return Rows16Types();
  return {WeightType::kQ4_K, WeightType::kBF16};
}

std::vector<Pick> OneExpert(uint32_t rows) {
  std::vector<Pick> picks;
  for (uint32_t row = 0; row < rows; ++row) picks.push_back({row, 0, 0.5f});
  return picks;
}

}  // namespace

TEST_CASE("Staged: every type gives the reference's bits for 1, 2, 5 and 13 rows", "[cuda]") {
  const auto rows =
      simt::kUnderThreadSanitizer ? std::vector<size_t>{5} : std::vector<size_t>{1, 2, 5, 13};
  for (const WeightType type : TestedTypes()) {
    uint64_t seed = 0;
    for (const size_t count : rows) {
      const ExpertShape shape = ShapeOf(type, 256, IsSuper(type) ? 256 : 96);
      CheckExpert({.seed = seed++, .staged_blocks = kBlockAUnit}, shape, BlockKind::kTame,
                  NormalRows(count, 256, count));
    }
  }
}

TEST_CASE(
    "Staged: a stream of many stages gives the reference's bits, whatever the seed and blocks",
    "[cuda]") {
  if (simt::kUnderThreadSanitizer) return;  // the next case has its ring around
  for (const WeightType type : Rows16Types()) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      // Pieces of 72 to 768 columns: whole ones, a shorter last one, and one that is all.
      const ExpertShape shape = ShapeOf(type, 1280, 256);
      CheckExpert(
          {.seed = seed, .staged_blocks = 1 + 2 * static_cast<uint32_t>(seed), .records = kMapped},
          shape, BlockKind::kTame, NormalRows(2, 1280, seed));
    }
  }
}

TEST_CASE("Staged: a ring that goes round more than once keeps no byte of the stage before",
          "[cuda]") {
  for (const WeightType type : {WeightType::kQ8_0, WeightType::kF32}) {
    const uint32_t columns = type == WeightType::kF32 ? 300 : 768;
    const ExpertShape shape = ShapeOf(type, columns, 96);
    CheckExpert({.seed = 2, .staged_blocks = 1}, shape, BlockKind::kTame,
                NormalRows(1, columns, 3));
  }
}

TEST_CASE("Staged: sizes that fill no unit, group, block or pair give the reference's bits",
          "[cuda]") {
  if (simt::kUnderThreadSanitizer) return;  // no other order of memory than in the cases above
  for (const uint32_t blocks : {kZeroCopyBlocks, kBlockAUnit}) {
    for (const WeightType type : {WeightType::kQ4_0, WeightType::kQ8_0, WeightType::kMXFP4}) {
      CheckExpert({.seed = 3, .staged_blocks = blocks}, ShapeOf(type, 288, 160), BlockKind::kTame,
                  NormalRows(3, 288, 5));
      CheckExpert({.seed = 4, .staged_blocks = blocks}, ShapeOf(type, 32, 32), BlockKind::kTame,
                  NormalRows(1, 32, 6));
    }
    for (const WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16}) {
      CheckExpert({.seed = 1, .staged_blocks = blocks}, ShapeOf(type, 235, 43), BlockKind::kTame,
                  NormalRows(3, 235, 7));
      CheckExpert({.seed = 2, .staged_blocks = blocks}, ShapeOf(type, 1, 1), BlockKind::kTame,
                  NormalRows(1, 1, 8));
    }
  }
}

TEST_CASE("Staged: extreme scales, biases and mixed types give the reference's bits", "[cuda]") {
  if (simt::kUnderThreadSanitizer) return;  // the same
  const Way way = {.seed = 5, .staged_blocks = kZeroCopyBlocks, .records = kMapped};
  for (const WeightType type : Rows16Types()) {
    Rows inputs = NormalRows(2, 256, 41);
    for (float& value : inputs[0]) value *= 1e18f;
    for (float& value : inputs[1]) value *= 1e-44f;
    CheckExpert(way, ShapeOf(type, 256, 256), BlockKind::kExtreme, inputs);
  }
  const ExpertShape biased = BiasedShape(96, 160, Activation::kSwiGluClamped);
  CheckExpert(way, biased, BlockKind::kTame, NormalRows(5, 96, 9));
  ExpertShape mixed = ShapeOf(WeightType::kQ4_K, 512, 256);
  mixed.down = WeightType::kQ6_K;
  CheckExpert(way, mixed, BlockKind::kTame, NormalRows(2, 512, 10));
}

TEST_CASE("Staged: experts with 0, 1, 2 and 9 picks in one call give the reference's bits",
          "[cuda]") {
  const uint32_t columns = simt::kUnderThreadSanitizer ? 64 : 256;
  const ExpertShape shape = ShapeOf(WeightType::kQ8_0, columns, 96);
  std::vector<RandomExpert> experts;
  for (uint64_t e = 0; e < 4; ++e) experts.emplace_back(shape, BlockKind::kTame, 60 + e);
  std::vector<Pick> picks = OneExpert(9);
  picks.insert(picks.end(), {{1, 1, 0.5f}, {3, 3, -0.25f}, {1, 3, 2.0f}});
  const uint64_t seeds = simt::kUnderThreadSanitizer ? 1 : 3;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    CheckLayer({.seed = seed, .staged_blocks = 2}, experts, NormalRows(9, columns, 11), picks);
  }
}

TEST_CASE("StagedBlocksFor: memory as fast as Hopper's is read through shared memory", "[cuda]") {
  CHECK(StagedBlocksFor(90) == kBlockAUnit);
  for (const uint32_t compute : {80u, 86u, 89u, 120u}) {
    CHECK(StagedBlocksFor(compute) == kDirectReads);
  }
}

}  // namespace moetier::kernels::cuda
