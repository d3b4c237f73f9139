#ifndef MOETIER_KERNELS_WEIGHT_TYPE_H_
#define MOETIER_KERNELS_WEIGHT_TYPE_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace moetier::kernels {

// Weight types by their ggml_type numbers, which GGUF stores. Only those that a kernel of ours
// serves have a name here; any other number of the table below can be held, not computed.
enum class WeightType : uint8_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kIQ4_XS = 23,
  kBF16 = 30,
  kMXFP4 = 39,
};

// What is known of a type. Block sizes are ggml's (public GGUF documentation, ggml-common.h).
struct WeightTypeInfo {
  std::string_view name;   // ggml's spelling: "Q4_K", "F16"
  uint32_t block_weights;  // weights in one block; a row is a whole number of blocks
  uint32_t block_bytes;
  bool has_kernel;   // the scalar reference serves it
  bool has_rows16;   // kernels/layout.h has a rows16 form of it
  bool integer_dot;  // activations are quantised to int8; else they stay f32
};

// One more than the largest ggml_type number in the table.
inline constexpr uint32_t kWeightTypeNumbers = 43;

// nullptr for a number that is not a ggml type we know, or one that ggml has withdrawn.
const WeightTypeInfo* FindWeightType(uint32_t ggml_type);

// For types already checked.
const WeightTypeInfo& Info(WeightType type);

// Bytes of a row of `columns` weights; none if `columns` is no whole number of blocks.
std::optional<uint64_t> RowBytes(WeightType type, uint64_t columns);

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_WEIGHT_TYPE_H_
