#include "kernels/cuda/decode_bodies.h"
#include "kernels/cuda/decode_table.h"

// Types whose block of 32 columns has one scale.

namespace moetier::kernels::cuda {

const DecodeLaunches kLaunchesQ4_0 = {LaunchGateUpOf<IntegerDots<Q4_0>>,
                                      LaunchDownOf<IntegerDots<Q4_0>>};
const DecodeLaunches kLaunchesQ8_0 = {LaunchGateUpOf<IntegerDots<Q8_0>>,
                                      LaunchDownOf<IntegerDots<Q8_0>>};
const DecodeLaunches kLaunchesMxfp4 = {LaunchGateUpOf<IntegerDots<Mxfp4>>,
                                       LaunchDownOf<IntegerDots<Mxfp4>>};

}  // namespace moetier::kernels::cuda
