#include "kernels/cuda/decode_bodies.h"
#include "kernels/cuda/decode_table.h"

// Types with a scale for 16 columns.

namespace moetier::kernels::cuda {

const DecodeLaunches kLaunchesQ6K = {LaunchGateUpOf<IntegerDots<Q6K>>,
                                     LaunchDownOf<IntegerDots<Q6K>>};
const DecodeLaunches kLaunchesQ2K = {LaunchGateUpOf<IntegerDots<Q2K>>,
                                     LaunchDownOf<IntegerDots<Q2K>>};
const DecodeLaunches kLaunchesQ3K = {LaunchGateUpOf<IntegerDots<Q3K>>,
                                     LaunchDownOf<IntegerDots<Q3K>>};

}  // namespace moetier::kernels::cuda
