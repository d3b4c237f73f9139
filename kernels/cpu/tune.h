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

// Measures kernels on cold memory, for the choice of a variant at start. Internal to kernels.

namespace moetier::kernels {

inline constexpr std::array<KernelVariant, 4> kKernelVariants = {{
    {.row_groups = 1, .prefetch = true},
    {.row_groups = 2, .prefetch = true},
    {.row_groups = 1, .prefetch = false},
    {.row_groups = 2, .prefetch = false},
}};

// Holds 64 MiB of matrix bytes while it lives.
class KernelTuner {
 public:
  KernelTuner();

  // Bytes that each kernel reads in a second of this thread's CPU time: one token over matrices of
  // 2048 columns, about 10 ms a kernel. The kernels run in turn and medians count, so that a
  // neighbour's burst of work decides nothing.
  [[nodiscard]] std::vector<double> BytesPerSecond(std::span<const MatVecFn> kernels,
                                                   WeightType type) const;

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> arena_;
  ActivationRows token_;
};

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_CPU_TUNE_H_
