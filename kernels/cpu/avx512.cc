#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/rows16_table.h"

namespace moetier::kernels {

MatVecFn Avx512Kernel(WeightType type, KernelVariant variant) {
  switch (type) {
    case WeightType::kQ4_0:
      return WithVariant<Avx512Q4_0>(variant);
    case WeightType::kQ8_0:
      return WithVariant<Avx512Q8_0>(variant);
    case WeightType::kMXFP4:
      return WithVariant<Avx512Mxfp4>(variant);
    case WeightType::kQ4_K:
      return WithVariant<Avx512Q4K>(variant);
    case WeightType::kQ5_K:
      return WithVariant<Avx512Q5K>(variant);
    case WeightType::kQ6_K:
      return WithVariant<Avx512Q6K>(variant);
    case WeightType::kQ2_K:
      return WithVariant<Avx512Q2K>(variant);
    case WeightType::kQ3_K:
      return WithVariant<Avx512Q3K>(variant);
    case WeightType::kBF16:
      return WithVariant<Avx512Bf16>(variant);
    case WeightType::kF16:
      return WithVariant<Avx512F16>(variant);
    case WeightType::kF32:
      return WithVariant<Avx512F32>(variant);
    default:
      return nullptr;
  }
}

}  // namespace moetier::kernels
