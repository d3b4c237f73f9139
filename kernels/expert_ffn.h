#ifndef MOETIER_KERNELS_EXPERT_FFN_H_
#define MOETIER_KERNELS_EXPERT_FFN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kernels/activation_rows.h"
#include "kernels/expert_shape.h"
#include "kernels/layout.h"

namespace moetier::kernels {

// Instruction sets of the CPU kernels; each gives the same bits.
enum class InstructionSet : uint8_t { kScalar, kAvx2, kAvx512 };
std::string_view InstructionSetName(InstructionSet set);            // "scalar" "avx2" "avx512"
Result<InstructionSet> ParseInstructionSet(std::string_view name);  // says what is allowed
bool CpuSupports(InstructionSet set);  // of this host: AVX-512 needs F, BW, DQ, VL and VNNI
InstructionSet BestInstructionSet();

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
// Threads: immutable after Create; Run may be called from any number of threads.
class ExpertKernels {
 public:
  // kFailedPrecondition when the host lacks `set`.
  static Result<ExpertKernels> Create(InstructionSet set);

  void Run(const MatVec& call) const;
  [[nodiscard]] InstructionSet instruction_set() const { return set_; }

  // Measures {1, 2 row groups} x {prefetch 0, 4 KiB} per type on cold memory, about 10 ms each, and
  // keeps the fastest; every choice gives the same bits. Returns one line per type for the log.
  std::string Tune(std::span<const WeightType> types);

 private:
  explicit ExpertKernels(InstructionSet set) : set_(set) {}
  InstructionSet set_;
};

// An expert ready to compute.
struct ExpertView {
  const ExpertShape* shape;
  const RecordLayout* layout;
  const std::byte* record;
};

// The two phases of one expert over up to kMaxTokens rows, in units that workers claim.
// Phase 1, unit u: h[t][32u .. 32u+32) = act(gate, up), stored and quantised into `h`.
// Phase 2, unit u: y[t][32u .. 32u+32) = down(h), without the router weight.
// Every unit of phase 1 of an expert must be done before a unit of phase 2 reads `h`.
uint32_t GateUpUnits(const ExpertShape& shape);
uint32_t DownUnits(const ExpertShape& shape);
void RunGateUpUnit(const ExpertKernels& kernels, const ExpertView& expert,
                   std::span<const ActivationRow> tokens, uint32_t unit, ActivationRows& h,
                   uint32_t first_h_row);
void RunDownUnit(const ExpertKernels& kernels, const ExpertView& expert,
                 std::span<const ActivationRow> h, uint32_t unit, std::span<float* const> y);

// out = fma(weight, y, out) over `out.size()` values; picks are added in the request's order from
// +0. A NaN is written as one quiet pattern (0x7FC00000) so that results can be compared.
void AddWeighted(std::span<float> out, float weight, std::span<const float> y);
void CanonicaliseNan(std::span<float> out);

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_EXPERT_FFN_H_
