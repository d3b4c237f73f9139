#ifndef MOETIER_KERNELS_CPU_TUNE_H_
#define MOETIER_KERNELS_CPU_TUNE_H_

#include <array>
#include <cstddef>
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

  // One token over matrices of 2048 columns for about 10 ms, after a short warm-up.
  [[nodiscard]] double BytesPerSecond(MatVecFn kernel, WeightType type) const;

 private:
  std::vector<std::byte> arena_;
  ActivationRows token_;
};

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_CPU_TUNE_H_
