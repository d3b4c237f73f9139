#include "kernels/weight_type.h"

#include <catch2/catch.hpp>

#include "tests/unit/kernels/random_expert.h"

namespace moetier::kernels {

TEST_CASE("WeightType: numbers that ggml withdrew or never gave are not found", "[kernels]") {
  for (const uint32_t number : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 43u, 255u, 4000000000u}) {
    CAPTURE(number);
    CHECK(FindWeightType(number) == nullptr);
  }
}

TEST_CASE("WeightType: exactly the types with a name have a kernel", "[kernels]") {
  uint32_t with_kernel = 0;
  for (uint32_t number = 0; number < kWeightTypeNumbers; ++number) {
    const WeightTypeInfo* info = FindWeightType(number);
    if (info != nullptr && info->has_kernel) ++with_kernel;
    if (info != nullptr && info->has_rows16) CHECK(info->has_kernel);
  }
  CHECK(with_kernel == kKernelTypes.size());
  for (const WeightType type : kKernelTypes) CHECK(Info(type).has_kernel);
  CHECK(Rows16Types().size() == 11);
}

TEST_CASE("WeightType: a row has whole blocks or no size", "[kernels]") {
  CHECK(RowBytes(WeightType::kQ4_K, 2048) == 8u * 144);
  CHECK(RowBytes(WeightType::kMXFP4, 2880) == 90u * 17);
  CHECK(RowBytes(WeightType::kBF16, 7) == 14u);
  CHECK_FALSE(RowBytes(WeightType::kQ6_K, 2880).has_value());
  CHECK_FALSE(RowBytes(WeightType::kQ8_0, 31).has_value());
}

TEST_CASE("WeightType: types without a kernel are known by name and size", "[kernels]") {
  const WeightTypeInfo* info = FindWeightType(16);
  REQUIRE(info != nullptr);
  CHECK(info->name == "IQ2_XXS");
  CHECK(info->block_bytes == 66);
  CHECK_FALSE(info->has_kernel);
}

}  // namespace moetier::kernels
