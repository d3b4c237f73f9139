#include "kernels/cuda/decode_bodies.h"
#include "kernels/cuda/decode_table.h"

// Float types.

namespace moetier::kernels::cuda {

const DecodeLaunches kLaunchesBf16 = {LaunchGateUpOf<FloatDots<Bf16>>,
                                      LaunchDownOf<FloatDots<Bf16>>};
const DecodeLaunches kLaunchesF16 = {LaunchGateUpOf<FloatDots<F16>>, LaunchDownOf<FloatDots<F16>>};
const DecodeLaunches kLaunchesF32 = {LaunchGateUpOf<FloatDots<F32>>, LaunchDownOf<FloatDots<F32>>};

}  // namespace moetier::kernels::cuda
