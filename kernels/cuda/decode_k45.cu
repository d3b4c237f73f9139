#include "kernels/cuda/decode_launches.h"

// Types with a scale and a minimum for 32 columns.

namespace moetier::kernels::cuda {

const DecodeLaunches kDecodeQ4K = DecodeLaunchesOf<IntegerDots<Q4K>>();
const DecodeLaunches kDecodeQ5K = DecodeLaunchesOf<IntegerDots<Q5K>>();

}  // namespace moetier::kernels::cuda
