#include "kernels/cpu/cpu_kernels.h"

namespace moetier::kernels {

MatVecFn Avx2Kernel(WeightType /*type*/, KernelVariant /*variant*/) { return nullptr; }

}  // namespace moetier::kernels
