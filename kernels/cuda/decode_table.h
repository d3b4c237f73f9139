#ifndef MOETIER_KERNELS_CUDA_DECODE_TABLE_H_
#define MOETIER_KERNELS_CUDA_DECODE_TABLE_H_

#include "kernels/cuda/decode_kernels.h"

// The launches of each weight type, one .cu file a family; decode_kernels.cc picks.

namespace moetier::kernels::cuda {

struct DecodeLaunches {
  int (*gate_up)(const GateUpCall& call, StreamHandle stream);
  int (*down)(const DownCall& call, StreamHandle stream);
  int (*staged_gate_up)(const GateUpCall& call, StreamHandle stream);
  int (*staged_down)(const DownCall& call, StreamHandle stream);
};

extern const DecodeLaunches kLaunchesQ4_0;
extern const DecodeLaunches kLaunchesQ8_0;
extern const DecodeLaunches kLaunchesMxfp4;
extern const DecodeLaunches kLaunchesQ4K;
extern const DecodeLaunches kLaunchesQ5K;
extern const DecodeLaunches kLaunchesQ6K;
extern const DecodeLaunches kLaunchesQ2K;
extern const DecodeLaunches kLaunchesQ3K;
extern const DecodeLaunches kLaunchesBf16;
extern const DecodeLaunches kLaunchesF16;
extern const DecodeLaunches kLaunchesF32;

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_DECODE_TABLE_H_
