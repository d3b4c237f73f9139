#include "kernels/cuda/weight_launches.h"

// Types whose block of 32 columns has one scale.

namespace moetier::kernels::cuda {

const DecodeLaunches kLaunchesQ4_0 = LaunchesOf<IntegerDots<Q4_0>>();
const DecodeLaunches kLaunchesQ8_0 = LaunchesOf<IntegerDots<Q8_0>>();
const DecodeLaunches kLaunchesMxfp4 = LaunchesOf<IntegerDots<Mxfp4>>();

}  // namespace moetier::kernels::cuda
