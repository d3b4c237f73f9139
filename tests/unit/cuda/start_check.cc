// A program with the kernels for GPUs inside: it must start where there is no driver. Exits 0 if
// the kernels are there.

#include "kernels/cuda/expert_kernels.h"

int main() {
  using moetier::kernels::WeightType;
  return moetier::kernels::cuda::HasExpertKernels(WeightType::kQ8_0) ? 0 : 1;
}
