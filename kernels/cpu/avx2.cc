#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/rows16_table.h"

namespace moetier::kernels {

MatVecFn Avx2Kernel(WeightType type, KernelVariant variant) {
  switch (type) {
    case WeightType::kQ4_0:
      return WithVariant<Avx2Q4_0>(variant);
    case WeightType::kQ8_0:
      return WithVariant<Avx2Q8_0>(variant);
    case WeightType::kMXFP4:
      return WithVariant<Avx2Mxfp4>(variant);
    case WeightType::kQ4_K:
      return WithVariant<Avx2Q4K>(variant);
    case WeightType::kQ5_K:
      return WithVariant<Avx2Q5K>(variant);
    case WeightType::kQ6_K:
      return WithVariant<Avx2Q6K>(variant);
    case WeightType::kQ2_K:
      return WithVariant<Avx2Q2K>(variant);
    case WeightType::kQ3_K:
      return WithVariant<Avx2Q3K>(variant);
    case WeightType::kBF16:
      return WithVariant<Avx2Bf16>(variant);
    case WeightType::kF16:
      return WithVariant<Avx2F16>(variant);
    case WeightType::kF32:
      return WithVariant<Avx2F32>(variant);
    default:
      return nullptr;
  }
}

}  // namespace moetier::kernels
