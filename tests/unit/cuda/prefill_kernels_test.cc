#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>

#include "kernels/cuda/expert_kernels.h"
#include "kernels/cuda/expert_plan.h"
#include "kernels/cuda/simt/sanitizers.h"
#include "tests/unit/cuda/layer_check.h"

namespace moetier::kernels::cuda {
namespace {

// ThreadSanitizer takes a millisecond a CUDA thread: the two kinds of tile, of the integer types
// the one whose stages hold the most, and few units.
std::vector<WeightType> TestedTypes() {
  if (!simt::kUnderThreadSanitizer) return Rows16Types();
  return {WeightType::kQ2_K, WeightType::kBF16};
}

}  // namespace

TEST_CASE("Prefill: every type with a rows16 form takes it from eight picks a run on", "[cuda]") {
  for (const WeightType type : Rows16Types()) {
    CHECK_FALSE(TakesPrefillKernel(type, 1));
    CHECK_FALSE(TakesPrefillKernel(type, 7));
    CHECK(TakesPrefillKernel(type, 8));
  }
  CHECK_FALSE(TakesPrefillKernel(WeightType::kQ5_0, 64));
}

TEST_CASE("Prefill: every type gives the reference's bits for 8 to 70 rows", "[cuda]") {
  for (const WeightType type : TestedTypes()) {
    uint64_t seed = 0;
    for (const size_t rows : {8, 9, 17, 33, 70}) {
      if (simt::kUnderThreadSanitizer && rows != 17) continue;
      // 70 rows are two tiles of tokens, the second one nearly empty.
      const ExpertShape shape = ShapeOf(type, 256, IsSuper(type) ? 256 : 96);
      CheckExpert({.seed = seed++}, shape, BlockKind::kTame, NormalRows(rows, 256, rows));
    }
  }
}

TEST_CASE("Prefill: sizes that fill no tile, stage or unit give the reference's bits", "[cuda]") {
  if (simt::kUnderThreadSanitizer) return;  // no other order of memory than in the case above
  for (const WeightType type : {WeightType::kQ4_0, WeightType::kQ8_0, WeightType::kMXFP4}) {
    CheckExpert({.seed = 1}, ShapeOf(type, 288, 160), BlockKind::kTame, NormalRows(9, 288, 5));
    CheckExpert({.seed = 2}, ShapeOf(type, 32, 32), BlockKind::kTame, NormalRows(33, 32, 6));
    CheckExpert({.seed = 0}, ShapeOf(type, 96, 64), BlockKind::kTame, NormalRows(8, 96, 7));
  }
  for (const WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16}) {
    CheckExpert({.seed = 1}, ShapeOf(type, 35, 43), BlockKind::kTame, NormalRows(9, 35, 7));
    CheckExpert({.seed = 2}, ShapeOf(type, 1, 1), BlockKind::kTame, NormalRows(8, 1, 8));
    CheckExpert({.seed = 0}, ShapeOf(type, 70, 65), BlockKind::kTame, NormalRows(50, 70, 9));
  }
  for (const WeightType type : {WeightType::kQ6_K, WeightType::kQ3_K}) {
    CheckExpert({.seed = 3}, ShapeOf(type, 768, 256), BlockKind::kTame, NormalRows(9, 768, 8));
  }
}

TEST_CASE("Prefill: biases, activations and mixed types give the reference's bits", "[cuda]") {
  for (const Activation activation :
       {Activation::kSwiGlu, Activation::kGeGlu, Activation::kSwiGluClamped}) {
    const ExpertShape shape = BiasedShape(96, 160, activation);
    CheckExpert({.seed = 5}, shape, BlockKind::kTame, NormalRows(9, 96, 9));
    if (simt::kUnderThreadSanitizer) return;
  }
  ExpertShape shape = ShapeOf(WeightType::kQ4_K, 512, 256);
  shape.down = WeightType::kQ6_K;
  CheckExpert({.seed = 6}, shape, BlockKind::kTame, NormalRows(10, 512, 10));
  shape.down = WeightType::kBF16;
  CheckExpert({.seed = 7}, shape, BlockKind::kTame, NormalRows(10, 512, 11));
}

TEST_CASE("Prefill: extreme scales and inputs give the reference's bits, NaN included", "[cuda]") {
  if (simt::kUnderThreadSanitizer) return;  // the same
  for (const WeightType type : TestedTypes()) {
    Rows inputs = NormalRows(12, 256, 41);
    for (float& value : inputs[0]) value *= 1e18f;
    for (float& value : inputs[1]) value *= 1e-30f;
    for (float& value : inputs[2]) value *= 1e-44f;
    std::fill(inputs[3].begin() + 32, inputs[3].end(), 0.0f);
    std::fill(inputs[4].begin(), inputs[4].end(), -1.0f);
    CheckExpert({.seed = 7}, ShapeOf(type, 256, 256), BlockKind::kExtreme, inputs);
  }
}

TEST_CASE("Prefill: the largest dots that there can be give the reference's bits", "[cuda]") {
  if (simt::kUnderThreadSanitizer) return;  // the same
  struct Extreme {
    WeightType type;
    size_t codes_begin, codes_end;
    uint8_t code;
    size_t scales_begin, scales_end;
  };
  // Q8_0: each code is -128. Q6_K: each code is -32, each scale -128: 2^24 less 127 * 2^10.
  for (const Extreme& extreme : {Extreme{WeightType::kQ8_0, 2, 34, 0x80, 0, 0},
                                 Extreme{WeightType::kQ6_K, 0, 192, 0x00, 192, 208}}) {
    RandomExpert expert(ShapeOf(extreme.type, 256, 256), BlockKind::kTame, 3);
    for (auto& part : expert.parts) {
      for (size_t at = 0; at < part.size(); at += Info(extreme.type).block_bytes) {
        const auto block = part.begin() + static_cast<ptrdiff_t>(at);
        const auto fill = [&](size_t begin, size_t end, uint8_t byte) {
          std::fill(block + static_cast<ptrdiff_t>(begin), block + static_cast<ptrdiff_t>(end),
                    std::byte{byte});
        };
        fill(extreme.codes_begin, extreme.codes_end, extreme.code);
        fill(extreme.scales_begin, extreme.scales_end, 0x80);
      }
    }
    Rows inputs(8, std::vector<float>(256, 1.0f));
    std::fill(inputs[1].begin(), inputs[1].end(), -1.0f);
    std::vector<Pick> picks;
    for (uint32_t row = 0; row < inputs.size(); ++row) picks.push_back({row, 0, 1.0f});
    CheckLayer({.seed = 0}, {expert}, inputs, picks);
  }
}

TEST_CASE("Prefill: an overflow inside h reaches every output as the one NaN", "[cuda]") {
  if (simt::kUnderThreadSanitizer) return;  // the same
  const Rows inputs(8, std::vector<float>(64, 1e30f));
  const RandomExpert expert(ShapeOf(WeightType::kQ8_0, 64, 64), BlockKind::kTame, 43);
  std::vector<Pick> picks;
  for (uint32_t row = 0; row < 8; ++row) picks.push_back({row, 0, 1.0f});
  const LayerResult got = RunLayer({}, {expert}, inputs, picks);
  for (const auto& row : got.y) {
    CHECK(std::all_of(row.begin(), row.end(),
                      [](float y) { return std::bit_cast<uint32_t>(y) == 0x7FC00000; }));
  }
}

TEST_CASE("Prefill: runs of very different lengths give the reference's bits, whatever the seed",
          "[cuda]") {
  const ExpertShape shape = ShapeOf(WeightType::kQ8_0, 64, 64);
  std::vector<RandomExpert> experts;
  for (uint64_t e = 0; e < 4; ++e) experts.emplace_back(shape, BlockKind::kTame, 60 + e);
  const Rows inputs = NormalRows(simt::kUnderThreadSanitizer ? 17 : 66, 64, 11);
  // Expert 0 serves all rows, 1 every fifth, 2 one, 3 none.
  std::vector<Pick> picks;
  for (uint32_t row = 0; row < inputs.size(); ++row) {
    if (row % 5 == 0) picks.push_back({row, 1, -0.25f});
    picks.push_back({row, 0, 0.5f});
    if (row == 13) picks.push_back({row, 2, 2.0f});
  }
  const uint64_t seeds = simt::kUnderThreadSanitizer ? 1 : 3;
  for (uint64_t seed = 0; seed < seeds; ++seed) CheckLayer({.seed = seed}, experts, inputs, picks);
}

TEST_CASE("Launches: planes that 16-byte copies cannot read are refused", "[cuda]") {
  const ExpertShape shape = ShapeOf(WeightType::kQ8_0, 64, 64);
  const ExpertPlan plan = *MakeExpertPlan(shape, *MakeRecordLayout(shape, RecordForm::kRows16));
  const auto owner = Must(KernelDevice::Open(0));
  KernelDevice& device = *owner;
  const PreparedRows rows = Must(NewRows(device, 8, 64));
  PreparedRows odd = rows;
  odd.codes += 4;
  CHECK(LaunchGateUp({plan, nullptr, 1, 8, nullptr, odd, rows}, device.stream()) == 1);
  CHECK(LaunchDown({plan, nullptr, 1, 8, odd, nullptr}, device.stream()) == 1);
  odd = rows;
  odd.values += 1;
  CHECK(LaunchGateUp({plan, nullptr, 1, 8, nullptr, odd, rows}, device.stream()) == 1);
  CHECK(LaunchDown({plan, nullptr, 1, 8, odd, nullptr}, device.stream()) == 1);
}

}  // namespace moetier::kernels::cuda
