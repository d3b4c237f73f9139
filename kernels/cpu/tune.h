#ifndef MOETIER_KERNELS_CPU_TUNE_H_
#define MOETIER_KERNELS_CPU_TUNE_H_

#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "kernels/activation_rows.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/expert_kernels.h"

// Measures kernels on cold memory, for the choice of a variant at start. Internal to kernels.

namespace moetier::kernels {

inline constexpr std::array<KernelVariant, 2> kKernelVariants = {
    {{.prefetch = true}, {.prefetch = false}}};

struct TuneOutcome {
  // Bytes that each kernel reads in a second of this thread's CPU time; empty when there was no
  // time for one round.
  std::vector<double> rates;
  bool stopped = false;
};

// Holds 64 MiB of matrix bytes while it lives.
class KernelTuner {
 public:
  KernelTuner();

  // One token over matrices of 2048 columns, 5 turns of 32 MiB a kernel. The kernels run in turn
  // and medians count, so that a neighbour's burst of work decides nothing. Where the turns take
  // longer than the budget, the rounds done by then count.
  [[nodiscard]] TuneOutcome BytesPerSecond(std::span<const MatVecFn> kernels, WeightType type,
                                           const TuneLimits& limits) const;

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> arena_;
  ActivationRows token_;
};

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_CPU_TUNE_H_
