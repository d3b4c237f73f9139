#include "kernels/cuda/decode_launches.h"

// Types with a scale for 16 columns.

namespace moetier::kernels::cuda {

const DecodeLaunches kDecodeQ6K = DecodeLaunchesOf<IntegerDots<Q6K>>();
const DecodeLaunches kDecodeQ2K = DecodeLaunchesOf<IntegerDots<Q2K>>();
const DecodeLaunches kDecodeQ3K = DecodeLaunchesOf<IntegerDots<Q3K>>();

}  // namespace moetier::kernels::cuda
