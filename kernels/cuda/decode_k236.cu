#include "kernels/cuda/weight_launches.h"

// Types with a scale for 16 columns.

namespace moetier::kernels::cuda {

const DecodeLaunches kLaunchesQ6K = LaunchesOf<IntegerDots<Q6K>>();
const DecodeLaunches kLaunchesQ2K = LaunchesOf<IntegerDots<Q2K>>();
const DecodeLaunches kLaunchesQ3K = LaunchesOf<IntegerDots<Q3K>>();

}  // namespace moetier::kernels::cuda
