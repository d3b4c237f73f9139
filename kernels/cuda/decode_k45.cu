#include "kernels/cuda/weight_launches.h"

// Types with a scale and a minimum for 32 columns.

namespace moetier::kernels::cuda {

const DecodeLaunches kLaunchesQ4K = LaunchesOf<IntegerDots<Q4K>>();
const DecodeLaunches kLaunchesQ5K = LaunchesOf<IntegerDots<Q5K>>();

}  // namespace moetier::kernels::cuda
