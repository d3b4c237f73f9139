#ifndef MOETIER_KERNELS_CUDA_LAUNCH_TABLES_H_
#define MOETIER_KERNELS_CUDA_LAUNCH_TABLES_H_

#include "kernels/cuda/expert_kernels.h"

// The launches of each weight type, one .cu file a family for decode and one for prefill;
// expert_kernels.cc picks.

namespace moetier::kernels::cuda {

struct DecodeLaunches {
  int (*gate_up)(const GateUpCall& call, StreamHandle stream);
  int (*down)(const DownCall& call, StreamHandle stream);
  int (*staged_gate_up)(const GateUpCall& call, StreamHandle stream);
  int (*staged_down)(const DownCall& call, StreamHandle stream);
};

struct PrefillLaunches {
  int (*gate_up)(const GateUpCall& call, StreamHandle stream);
  int (*down)(const DownCall& call, StreamHandle stream);
};

extern const DecodeLaunches kDecodeQ4_0;
extern const DecodeLaunches kDecodeQ8_0;
extern const DecodeLaunches kDecodeMxfp4;
extern const DecodeLaunches kDecodeQ4K;
extern const DecodeLaunches kDecodeQ5K;
extern const DecodeLaunches kDecodeQ6K;
extern const DecodeLaunches kDecodeQ2K;
extern const DecodeLaunches kDecodeQ3K;
extern const DecodeLaunches kDecodeBf16;
extern const DecodeLaunches kDecodeF16;
extern const DecodeLaunches kDecodeF32;

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

#endif  // MOETIER_KERNELS_CUDA_LAUNCH_TABLES_H_
