#include <algorithm>
#include <vector>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/reference/reference_expert.h"
#include "kernels/rows16.h"

namespace moetier::kernels {
namespace {

// The reference over records, row by row: slow, but the same on every processor.
void ScalarMatVec(const MatVec& call) {
  const RecordPart& part = *call.part;
  // One row in GGUF's blocks; grows to the longest row a thread has met and stays.
  thread_local std::vector<std::byte> row_blocks;
  row_blocks.resize(*RowBytes(part.type, part.columns));
  const std::span<const std::byte> record(
      call.record,
      part.offset + (part.layout == PartLayout::kRows16 ? (part.rows + kGroupRows - 1) / kGroupRows
                                                        : part.rows) *
                        part.stride);
  const uint32_t first = call.group_begin * kGroupRows;
  const uint32_t end = call.group_end * kGroupRows;
  for (uint32_t row = first; row < end; ++row) {
    if (row < part.rows) ExtractRow(part, record, row, row_blocks);
    for (size_t t = 0; t < call.tokens.size(); ++t) {
      call.out[t * call.out_stride + row - first] =
          row < part.rows ? ReferenceDot(part.type, row_blocks, part.columns, call.tokens[t])
                          : 0.0f;
    }
  }
}

}  // namespace

MatVecFn ScalarKernel(WeightType type) { return Info(type).has_kernel ? &ScalarMatVec : nullptr; }

}  // namespace moetier::kernels
