#ifndef MOETIER_TESTS_UNIT_KERNELS_SIMD_MATRIX_H_
#define MOETIER_TESTS_UNIT_KERNELS_SIMD_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "kernels/activation_rows.h"
#include "kernels/layout.h"

// Matrices and activations that bring out differences between kernels.

namespace moetier::kernels::test {

enum class Weights : uint8_t {
  kOrdinary,  // random codes, scales near one
  kExtreme,   // random codes, scales anywhere in the finite range
  kAllOnes,   // every code bit set, scales one: the largest unsigned sums
  kBytes80,   // every code byte 0x80: the largest signed byte
};
inline constexpr Weights kAllWeights[] = {Weights::kOrdinary, Weights::kExtreme, Weights::kAllOnes,
                                          Weights::kBytes80};

// One matrix as the model file has it and as a record part.
class TestMatrix {
 public:
  TestMatrix(WeightType type, uint32_t rows, uint32_t columns, Weights weights, uint32_t seed);

  [[nodiscard]] const RecordPart& part() const { return part_; }
  [[nodiscard]] const std::byte* record() const;
  [[nodiscard]] std::span<const std::byte> source() const { return source_; }
  [[nodiscard]] std::span<const std::byte> source_row(uint32_t row) const;
  [[nodiscard]] uint32_t groups() const { return (part_.rows + 15) / 16; }

 private:
  uint64_t row_bytes_;
  std::vector<std::byte> source_;
  std::vector<std::byte> storage_;  // the record, somewhere inside, 64-byte aligned
  RecordPart part_;
};

// Eight rows: normal, +1, -1, one outlier, zeros after the first block, times 1e18, times 1e-30,
// times 1e-44; normal with an infinity in the second block when `non_finite`.
ActivationRows TestActivations(uint32_t columns, bool non_finite, uint32_t seed);

}  // namespace moetier::kernels::test

#endif  // MOETIER_TESTS_UNIT_KERNELS_SIMD_MATRIX_H_
