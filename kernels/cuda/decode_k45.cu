#include "kernels/cuda/decode_bodies.h"
#include "kernels/cuda/decode_table.h"

// Types with a scale and a minimum for 32 columns.

namespace moetier::kernels::cuda {

const DecodeLaunches kLaunchesQ4K = {LaunchGateUpOf<IntegerDots<Q4K>>,
                                     LaunchDownOf<IntegerDots<Q4K>>};
const DecodeLaunches kLaunchesQ5K = {LaunchGateUpOf<IntegerDots<Q5K>>,
                                     LaunchDownOf<IntegerDots<Q5K>>};

}  // namespace moetier::kernels::cuda
