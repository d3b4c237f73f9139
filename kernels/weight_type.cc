#include "kernels/weight_type.h"

#include <array>

#include "base/check.h"

namespace moetier::kernels {
namespace {

constexpr WeightTypeInfo Held(std::string_view name, uint32_t weights, uint32_t bytes) {
  return {name, weights, bytes, false, false, false};
}
constexpr WeightTypeInfo SourceOnly(std::string_view name, uint32_t weights, uint32_t bytes) {
  return {name, weights, bytes, true, false, true};
}
constexpr WeightTypeInfo Rows16(std::string_view name, uint32_t weights, uint32_t bytes) {
  return {name, weights, bytes, true, true, true};
}
constexpr WeightTypeInfo Float(std::string_view name, uint32_t bytes) {
  return {name, 1, bytes, true, true, false};
}
constexpr WeightTypeInfo kWithdrawn{};  // block_weights is 0

// Indexed by ggml_type. 4, 5, 31..33 and 36..38 were withdrawn by ggml.
constexpr std::array kTypes = {
    Float("F32", 4),
    Float("F16", 2),
    Rows16("Q4_0", 32, 18),
    SourceOnly("Q4_1", 32, 20),
    kWithdrawn,
    kWithdrawn,
    SourceOnly("Q5_0", 32, 22),
    SourceOnly("Q5_1", 32, 24),
    Rows16("Q8_0", 32, 34),
    Held("Q8_1", 32, 36),
    Rows16("Q2_K", 256, 84),
    Rows16("Q3_K", 256, 110),
    Rows16("Q4_K", 256, 144),
    Rows16("Q5_K", 256, 176),
    Rows16("Q6_K", 256, 210),
    Held("Q8_K", 256, 292),
    Held("IQ2_XXS", 256, 66),
    Held("IQ2_XS", 256, 74),
    Held("IQ3_XXS", 256, 98),
    Held("IQ1_S", 256, 50),
    SourceOnly("IQ4_NL", 32, 18),
    Held("IQ3_S", 256, 110),
    Held("IQ2_S", 256, 82),
    SourceOnly("IQ4_XS", 256, 136),
    Held("I8", 1, 1),
    Held("I16", 1, 2),
    Held("I32", 1, 4),
    Held("I64", 1, 8),
    Held("F64", 1, 8),
    Held("IQ1_M", 256, 56),
    Float("BF16", 2),
    kWithdrawn,
    kWithdrawn,
    kWithdrawn,
    Held("TQ1_0", 256, 54),
    Held("TQ2_0", 256, 66),
    kWithdrawn,
    kWithdrawn,
    kWithdrawn,
    Rows16("MXFP4", 32, 17),
    Held("NVFP4", 64, 36),
    Held("Q1_0", 128, 18),
    Held("Q2_0", 64, 18),
};
static_assert(kTypes.size() == kWeightTypeNumbers);

}  // namespace

const WeightTypeInfo* FindWeightType(uint32_t ggml_type) {
  if (ggml_type >= kTypes.size() || kTypes[ggml_type].block_weights == 0) return nullptr;
  return &kTypes[ggml_type];
}

const WeightTypeInfo& Info(WeightType type) {
  const WeightTypeInfo* info = FindWeightType(static_cast<uint32_t>(type));
  MOE_CHECK(info != nullptr, "ggml type {} is not in the table", static_cast<uint32_t>(type));
  return *info;
}

std::optional<uint64_t> RowBytes(WeightType type, uint64_t columns) {
  const WeightTypeInfo& info = Info(type);
  if (columns % info.block_weights != 0) return std::nullopt;
  return columns / info.block_weights * info.block_bytes;
}

}  // namespace moetier::kernels
