#include "tiers/store/expert_scan.h"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/support/gguf_builder.h"

namespace moetier {
namespace {

using kernels::WeightType;

constexpr uint64_t kBlocks = 5;

std::vector<std::byte> Blocks(WeightType type) {
  return testing::RandomBlocks(type, kBlocks * kernels::Info(type).block_weights, 7);
}

struct Place {
  WeightType type;
  std::vector<size_t> halves;  // where the f16 scale and minimum stand in a block
};

// Byte maps of the format's documentation, written down apart from the code.
const Place kPlaces[] = {
    {WeightType::kQ4_0, {0}},    {WeightType::kQ4_1, {0, 2}}, {WeightType::kQ5_0, {0}},
    {WeightType::kQ5_1, {0, 2}}, {WeightType::kQ8_0, {0}},    {WeightType::kQ2_K, {80, 82}},
    {WeightType::kQ3_K, {108}},  {WeightType::kQ4_K, {0, 2}}, {WeightType::kQ5_K, {0, 2}},
    {WeightType::kQ6_K, {208}},  {WeightType::kIQ4_NL, {0}},  {WeightType::kIQ4_XS, {0}},
};

void PutHalf(std::vector<std::byte>& bytes, size_t at, uint16_t bits) {
  std::memcpy(&bytes[at], &bits, sizeof bits);
}

}  // namespace

TEST_CASE("field_40: a scale that is infinite or NaN names tensor, expert and block", "[store]") {
  for (const Place& place : kPlaces) {
    const kernels::WeightTypeInfo& info = kernels::Info(place.type);
    for (const size_t half : place.halves) {
      for (const uint16_t bits : {uint16_t{0x7C00}, uint16_t{0xFC00}, uint16_t{0x7E01}}) {
        std::vector<std::byte> bytes = Blocks(place.type);
        PutHalf(bytes, 3 * info.block_bytes + half, bits);
        const auto scan =
            ScanExpertWeights(place.type, bytes, "blk.4.ffn_up_exps.weight", ExpertIndex{9});
        INFO(info.name);
        REQUIRE(!scan.has_value());
        CHECK(scan.error().code == ErrorCode::kDataLoss);
        CHECK(
            scan.error().message ==
            fmt::format("blk.4.ffn_up_exps.weight expert 9: block 3 of 5 ({}) has a scale that is "
                        "not finite; fetch the file again or use another quantisation",
                        info.name));
      }
    }
  }
}

TEST_CASE("field_40: the first of several bad blocks is named, whichever half is bad", "[store]") {
  std::vector<std::byte> bytes = Blocks(WeightType::kQ4_K);
  PutHalf(bytes, 4 * 144, 0x7C00);
  PutHalf(bytes, 1 * 144 + 2, 0x7C00);
  const auto scan = ScanExpertWeights(WeightType::kQ4_K, bytes, "t", ExpertIndex{0});
  REQUIRE(!scan.has_value());
  CHECK(scan.error().message.starts_with("t expert 0: block 1 of 5"));
}

TEST_CASE("field_40: a plain weight that is not finite is named", "[store]") {
  const std::pair<WeightType, uint32_t> cases[] = {
      {WeightType::kF32, 0xFF800000}, {WeightType::kF32, 0x7FC00000}, {WeightType::kF16, 0x7C00},
      {WeightType::kF16, 0xFE00},     {WeightType::kBF16, 0x7F80},    {WeightType::kBF16, 0xFFC0}};
  for (const auto& [type, bits] : cases) {
    std::vector<std::byte> bytes = Blocks(type);
    const size_t each = kernels::Info(type).block_bytes;
    std::memcpy(&bytes[2 * each], &bits, each);
    const auto scan = ScanExpertWeights(type, bytes, "t", ExpertIndex{1});
    REQUIRE(!scan.has_value());
    CHECK(scan.error().message ==
          fmt::format("t expert 1: weight 2 of 5 ({}) is not finite; fetch the file again or use "
                      "another quantisation",
                      kernels::Info(type).name));
  }
}

TEST_CASE("ScanExpertWeights: finite weights pass, the largest ones too", "[store]") {
  for (const Place& place : kPlaces) {
    std::vector<std::byte> bytes = Blocks(place.type);
    CHECK(ScanExpertWeights(place.type, bytes, "t", ExpertIndex{0}).has_value());
    for (const size_t half : place.halves) PutHalf(bytes, half, 0x7BFF);  // 65504
    CHECK(ScanExpertWeights(place.type, bytes, "t", ExpertIndex{0}).has_value());
  }
  for (const WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16}) {
    CHECK(ScanExpertWeights(type, Blocks(type), "t", ExpertIndex{0}).has_value());
  }
}

TEST_CASE("ScanExpertWeights: MXFP4's exponent 255 is counted, not refused", "[store]") {
  std::vector<std::byte> bytes = Blocks(WeightType::kMXFP4);
  CHECK(ScanExpertWeights(WeightType::kMXFP4, bytes, "t", ExpertIndex{0})->largest_exponents == 0);
  bytes[2 * 17] = std::byte{255};
  bytes[4 * 17] = std::byte{255};
  const auto scan = ScanExpertWeights(WeightType::kMXFP4, bytes, "t", ExpertIndex{0});
  REQUIRE(scan.has_value());
  CHECK(scan->largest_exponents == 2);
  CHECK(scan->first_largest_exponent == 2);
}

TEST_CASE("ScanExpertWeights: a type whose scales we do not know is not looked at", "[store]") {
  const std::vector<std::byte> bytes(56, std::byte{0xFF});  // one block of IQ1_M
  CHECK(ScanExpertWeights(static_cast<WeightType>(29), bytes, "t", ExpertIndex{0}).has_value());
}

}  // namespace moetier
