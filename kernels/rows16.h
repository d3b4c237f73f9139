#ifndef MOETIER_KERNELS_ROWS16_H_
#define MOETIER_KERNELS_ROWS16_H_

#include <cstddef>
#include <cstdint>

#include "kernels/weight_type.h"

// Groups of the rows16 layout: 16 rows x `columns` weights in lines of 64 bytes. Internal to
// kernels; layout.h is what others use.

namespace moetier::kernels {

inline constexpr uint32_t kGroupRows = 16;
inline constexpr uint32_t kLineBytes = 64;

// A type with a rows16 form, and columns that are a whole number of its blocks.
uint64_t GroupBytes(WeightType type, uint32_t columns);

// Writes every byte of the group. `rows` (1..16) rows of GGUF blocks stand at `source`, row_bytes
// apart; the group's other rows become rows of zero blocks.
void PackGroup(WeightType type, uint32_t columns, const std::byte* source, uint64_t row_bytes,
               uint32_t rows, std::byte* group);

// Row `row` (0..15) of a group back in GGUF's blocks; `out` has a row's bytes.
void ExtractGroupRow(WeightType type, uint32_t columns, const std::byte* group, uint32_t row,
                     std::byte* out);

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_ROWS16_H_
