#ifndef MOETIER_KERNELS_CPU_ROWS16_TABLE_H_
#define MOETIER_KERNELS_CPU_ROWS16_TABLE_H_

#include "base/check.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/rows16_call.h"

// Makes a MatVecFn of a vector kernel and a variant. Compiled for every processor.

namespace moetier::kernels {

template <Rows16Kernel kKernel, bool kPrefetch>
void RunRows16(const MatVec& call) {
  const RecordPart& part = *call.part;
  MOE_CHECK(part.layout == PartLayout::kRows16, "a vector kernel got a part in source layout");
  kKernel({.groups = reinterpret_cast<const uint8_t*>(call.record + part.offset +
                                                      part.stride * call.group_begin),
           .stride = part.stride,
           .group_count = call.group_end - call.group_begin,
           .columns = part.columns,
           .tokens = call.tokens.data(),
           .token_count = static_cast<uint32_t>(call.tokens.size()),
           .out = call.out,
           .out_stride = call.out_stride,
           .prefetch = kPrefetch});
}

template <Rows16Kernel kKernel>
MatVecFn WithVariant(KernelVariant variant) {
  return variant.prefetch ? RunRows16<kKernel, true> : RunRows16<kKernel, false>;
}

}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_CPU_ROWS16_TABLE_H_
