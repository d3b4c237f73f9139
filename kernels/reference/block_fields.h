#ifndef MOETIER_KERNELS_REFERENCE_BLOCK_FIELDS_H_
#define MOETIER_KERNELS_REFERENCE_BLOCK_FIELDS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/weight_type.h"

namespace moetier::kernels {

// 32 neighbouring columns of a row of an integer type, read byte by byte. Column i of half h =
// i / 16 has the weight  d * scale[h] * code[i] - dmin * minimum[h].
struct BlockFields {
  std::array<int32_t, 32> code;    // what multiplies the scale: offsets and tables applied
  std::array<int32_t, 2> scale;    // of the halves of 16; 1 where the type has none
  std::array<int32_t, 2> minimum;  // likewise; 0 where the type has none
  float d;
  float dmin;
};

// Columns 32b..32b+31 of `row`, a row of GGUF blocks of `type`, for which integer_dot holds.
BlockFields ReadBlockFields(WeightType type, std::span<const std::byte> row, uint32_t b);

// Half precision and bfloat16 to f32; exact.
float HalfToFloat(uint16_t bits);
float Bfloat16ToFloat(uint16_t bits);

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_REFERENCE_BLOCK_FIELDS_H_
