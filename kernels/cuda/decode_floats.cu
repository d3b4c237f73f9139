#include "kernels/cuda/weight_launches.h"

// Float types.

namespace moetier::kernels::cuda {

const DecodeLaunches kLaunchesBf16 = LaunchesOf<FloatDots<Bf16>>();
const DecodeLaunches kLaunchesF16 = LaunchesOf<FloatDots<F16>>();
const DecodeLaunches kLaunchesF32 = LaunchesOf<FloatDots<F32>>();

}  // namespace moetier::kernels::cuda
