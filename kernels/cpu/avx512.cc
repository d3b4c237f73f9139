#include "kernels/cpu/cpu_kernels.h"

namespace moetier::kernels {

MatVecFn Avx512Kernel(WeightType /*type*/, KernelVariant /*variant*/) { return nullptr; }

}  // namespace moetier::kernels
