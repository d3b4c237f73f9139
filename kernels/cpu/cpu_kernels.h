#ifndef MOETIER_KERNELS_CPU_CPU_KERNELS_H_
#define MOETIER_KERNELS_CPU_CPU_KERNELS_H_

#include <cstdint>

#include "kernels/expert_kernels.h"

// The table of CPU dots: what one instruction set offers for one weight type. Internal to kernels.

namespace moetier::kernels {

// How a kernel walks the matrix; every variant gives the same bits.
struct KernelVariant {
  bool prefetch = true;  // of every line, 4 KiB ahead
  friend bool operator==(const KernelVariant&, const KernelVariant&) = default;
};

// Computes one MatVec; any range of groups, any number of tokens up to kMaxTokens. Vector kernels
// take parts in the rows16 layout only.
using MatVecFn = void (*)(const MatVec&);

// Serves every type with has_kernel, in both layouts.
MatVecFn ScalarKernel(WeightType type);
// nullptr where there is none (another processor, a type without one): then scalar serves.
MatVecFn Avx2Kernel(WeightType type, KernelVariant variant);
MatVecFn Avx512Kernel(WeightType type, KernelVariant variant);

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_CPU_CPU_KERNELS_H_
