#ifndef MOETIER_KERNELS_CPU_ROWS16_SHAPES_H_
#define MOETIER_KERNELS_CPU_ROWS16_SHAPES_H_

#include <cstdint>

#include "kernels/cpu/rows16_call.h"

// From the counts of a call to the pass compiled for them. Only for the files that are compiled for
// one instruction set.

namespace moetier::kernels {
namespace {

template <template <class, class, int, int, bool> class Pass, class V, class Format, int kTokens,
          bool kPrefetch>
void RunTokens(const Rows16Call& call) {
  // A count without a pass of its own computes its last token again.
  ActivationRow tokens[kTokens];
  for (uint32_t t = 0; t < kTokens; ++t) {
    tokens[t] = call.tokens[t < call.token_count ? t : call.token_count - 1];
  }
  uint32_t group = 0;
  if (call.row_groups == 2) {
    for (; group + 2 <= call.group_count; group += 2) {
      Pass<V, Format, 2, kTokens, kPrefetch>::Run(call, group, tokens);
    }
  }
  for (; group < call.group_count; ++group) {
    Pass<V, Format, 1, kTokens, kPrefetch>::Run(call, group, tokens);
  }
}

template <template <class, class, int, int, bool> class Pass, class V, class Format, bool kPrefetch>
void RunShape(const Rows16Call& call) {
  switch (call.token_count) {
    case 1:
      return RunTokens<Pass, V, Format, 1, kPrefetch>(call);
    case 2:
      return RunTokens<Pass, V, Format, 2, kPrefetch>(call);
    case 3:
      return RunTokens<Pass, V, Format, 3, kPrefetch>(call);
    case 4:
      return RunTokens<Pass, V, Format, 4, kPrefetch>(call);
    case 5:
    case 6:
      return RunTokens<Pass, V, Format, 6, kPrefetch>(call);
    default:
      return RunTokens<Pass, V, Format, 8, kPrefetch>(call);
  }
}

template <template <class, class, int, int, bool> class Pass, class V, class Format>
void RunFormat(const Rows16Call& call) {
  if (call.prefetch) {
    RunShape<Pass, V, Format, true>(call);
  } else {
    RunShape<Pass, V, Format, false>(call);
  }
}

}  // namespace
}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_CPU_ROWS16_SHAPES_H_
