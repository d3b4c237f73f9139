#ifndef MOETIER_KERNELS_EXPERT_KERNELS_H_
#define MOETIER_KERNELS_EXPERT_KERNELS_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kernels/activation_rows.h"
#include "kernels/layout.h"

namespace moetier::kernels {

// Instruction sets of the CPU kernels; each gives the same bits.
enum class InstructionSet : uint8_t { kScalar, kAvx2, kAvx512 };
std::string_view InstructionSetName(InstructionSet set);            // "scalar" "avx2" "avx512"
Result<InstructionSet> ParseInstructionSet(std::string_view name);  // says what is allowed
// Of this host and its operating system. AVX2 needs FMA and F16C too; AVX-512 needs F, BW, DQ, VL
// and VNNI.
bool CpuSupports(InstructionSet set);
InstructionSet BestInstructionSet();

struct TuneLimits {
  std::function<bool()> stop_requested;  // asked every few ms
  // The wall time that measuring one weight type takes at most: on a busy host a start must not
  // wait for the neighbours.
  std::chrono::milliseconds budget{250};
};

// The most rows one call of ExpertKernels takes.
inline constexpr uint32_t kMaxTokens = 8;

// out[t][row] = dot(matrix row, token t) for rows [16 * group_begin, 16 * group_end) of a part.
struct MatVec {
  const RecordPart* part;
  const std::byte* record;                // the record's start, 64-byte aligned
  std::span<const ActivationRow> tokens;  // 1..kMaxTokens
  uint32_t group_begin;
  uint32_t group_end;
  float* out;  // out[t * out_stride + row - 16 * group_begin]
  size_t out_stride;
};

// The dots of one instruction set, for all types. Rows of a last, incomplete group that lie beyond
// part->rows are written as whatever they compute to; `out` has room for whole groups.
// Threads: immutable after Create and Tune; Run may be called from any number of threads.
class ExpertKernels {
 public:
  // kFailedPrecondition when the host lacks `set`.
  static Result<ExpertKernels> Create(InstructionSet set);

  void Run(const MatVec& call) const;
  [[nodiscard]] InstructionSet instruction_set() const { return set_; }

  // Measures each type on cold memory with and without prefetching 4 KiB ahead and keeps the
  // faster; both give the same bits. Returns one line per type for the log; none, with the types
  // done so far tuned, once stop_requested says so.
  std::optional<std::string> Tune(std::span<const WeightType> types, const TuneLimits& limits);

 private:
  explicit ExpertKernels(InstructionSet set);
  using Kernel = void (*)(const MatVec&);  // MatVecFn of kernels/cpu/cpu_kernels.h

  InstructionSet set_;
  std::array<Kernel, kWeightTypeNumbers> rows16_{};  // by ggml type; nullptr where none computes
  std::array<Kernel, kWeightTypeNumbers> source_{};  // the same for parts in the source layout
};

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_EXPERT_KERNELS_H_
