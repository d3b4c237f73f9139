#ifndef MOETIER_KERNELS_CPU_ROWS16_SHAPES_H_
#define MOETIER_KERNELS_CPU_ROWS16_SHAPES_H_

#include <cstdint>

#include "kernels/cpu/rows16_call.h"

// From the counts of a call to the pass compiled for them. Only for the files that are compiled for
// one instruction set.

namespace moetier::kernels {
namespace {

// All tokens of a call over the same kGroups groups: what the first pass has read lies in the cache
// for the others.
template <template <class, class, int, int> class Pass, class V, class Format, int kGroups>
void RunTokens(const Rows16Call& call, uint32_t group) {
  constexpr bool kEight = kGroups * V::kParts <= 2;
  Rows16Call rest = call;
  while (rest.token_count > 0) {
    uint32_t done = 1;
    if (rest.token_count >= 8 && kEight) {
      // Without AVX-512 eight rows of two groups never fit the registers.
      Pass<V, Format, kEight ? kGroups : 1, 8>::Run(rest, group);
      done = 8;
    } else if (rest.token_count >= 4) {
      Pass<V, Format, kGroups, 4>::Run(rest, group);
      done = 4;
    } else if (rest.token_count >= 2) {
      Pass<V, Format, kGroups, 2>::Run(rest, group);
      done = 2;
    } else {
      Pass<V, Format, kGroups, 1>::Run(rest, group);
    }
    rest.token_count -= done;
    rest.tokens += done;
    rest.out += done * rest.out_stride;
  }
}

template <template <class, class, int, int> class Pass, class V, class Format>
void RunFormat(const Rows16Call& call) {
  Rows16Call shaped = call;
  // From four rows on the kernels compute about as long as memory takes. Two groups then share the
  // broadcasts of the activations, and prefetching overlaps the two (measured: 1.3 times faster).
  if (call.token_count >= 4) {
    shaped.row_groups = 2;
    shaped.prefetch = true;
  }
  uint32_t group = 0;
  if (shaped.row_groups == 2) {
    for (; group + 2 <= call.group_count; group += 2) {
      RunTokens<Pass, V, Format, 2>(shaped, group);
    }
  }
  for (; group < call.group_count; ++group) {
    RunTokens<Pass, V, Format, 1>(shaped, group);
  }
}

}  // namespace
}  // namespace moetier::kernels

#endif  // MOETIER_KERNELS_CPU_ROWS16_SHAPES_H_
