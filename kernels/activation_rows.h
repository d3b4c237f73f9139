#ifndef MOETIER_KERNELS_ACTIVATION_ROWS_H_
#define MOETIER_KERNELS_ACTIVATION_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moetier::kernels {

inline constexpr uint32_t kActivationBlock = 32;  // columns that share one activation scale

// One prepared row as the dots read it. Pointers into an ActivationRows, 64-byte aligned.
struct ActivationRow {
  const float* values;       // [columns] f32, zero padded to a whole block
  const int8_t* codes;       // [columns] in -127..127, padded likewise
  const float* scales;       // [blocks] xs
  const float* scaled_sums;  // [blocks] xsum = xs * float(sum of codes)
  const int32_t* half_sums;  // [blocks][2] sums of the codes' two halves of 16
};

// Rows of activations made ready for dots, by the canonical rule (ARCHITECTURE.md, "Arithmetic"):
// int8 codes per block of 32 with an f32 scale; the f32 values are kept beside them.
//   m = max|x|; if m < 2^-100 scale and codes are 0, else scale = m / 127, code = rint(x *
//   (127/m)).
// A block that holds a NaN or an infinity has codes 0, a NaN scale and a NaN scaled sum: every dot
// of an integer type over it is NaN. Float types read the values themselves and follow IEEE.
// Threads: distinct (row, block) pairs may be written at once; reads only after all writes.
class ActivationRows {
 public:
  ActivationRows() = default;
  ActivationRows(ActivationRows&&) noexcept = default;
  ActivationRows& operator=(ActivationRows&&) noexcept = default;

  // Makes room; allocates only when it grows. Contents are undefined afterwards.
  void Resize(uint32_t rows, uint32_t columns);

  // Stores and quantises 32 columns (the last block of a row may be shorter).
  void PutBlock(uint32_t row, uint32_t block, std::span<const float> values);
  void PutRow(uint32_t row, std::span<const float> values);

  [[nodiscard]] ActivationRow row(uint32_t row) const;
  [[nodiscard]] uint32_t rows() const { return rows_; }
  [[nodiscard]] uint32_t columns() const { return columns_; }
  [[nodiscard]] uint32_t blocks() const { return blocks_; }

 private:
  [[nodiscard]] std::byte* RowStart(uint32_t row) const;

  uint32_t rows_ = 0;
  uint32_t columns_ = 0;
  uint32_t blocks_ = 0;
  size_t row_bytes_ = 0;
  std::vector<std::byte> storage_;  // a move keeps its address, which the alignment depends on
};

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_ACTIVATION_ROWS_H_
