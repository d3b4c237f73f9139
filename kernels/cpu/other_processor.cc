#include "kernels/cpu/cpu_kernels.h"

// Where no vector kernel exists, the scalar ones serve.

namespace moetier::kernels {

MatVecFn Avx2Kernel(WeightType /*type*/, KernelVariant /*variant*/) { return nullptr; }

MatVecFn Avx512Kernel(WeightType /*type*/, KernelVariant /*variant*/) { return nullptr; }

}  // namespace moetier::kernels
