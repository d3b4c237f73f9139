#ifndef MOETIER_KERNELS_CUDA_PREFILL_TABLE_H_
#define MOETIER_KERNELS_CUDA_PREFILL_TABLE_H_

#include "kernels/cuda/decode_kernels.h"

// The prefill launches of each weight type, one .cu file a family; decode_kernels.cc picks.

namespace moetier::kernels::cuda {

struct PrefillLaunches {
  int (*gate_up)(const GateUpCall& call, StreamHandle stream);
  int (*down)(const DownCall& call, StreamHandle stream);
};

extern const PrefillLaunches kPrefillQ4_0;
extern const PrefillLaunches kPrefillQ8_0;
extern const PrefillLaunches kPrefillMxfp4;
extern const PrefillLaunches kPrefillQ4K;
extern const PrefillLaunches kPrefillQ5K;
extern const PrefillLaunches kPrefillQ6K;
extern const PrefillLaunches kPrefillQ2K;
extern const PrefillLaunches kPrefillQ3K;
extern const PrefillLaunches kPrefillBf16;
extern const PrefillLaunches kPrefillF16;
extern const PrefillLaunches kPrefillF32;

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_PREFILL_TABLE_H_
