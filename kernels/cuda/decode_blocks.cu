#include "kernels/cuda/decode_launches.h"

// Types whose block of 32 columns has one scale.

namespace moetier::kernels::cuda {

const DecodeLaunches kDecodeQ4_0 = DecodeLaunchesOf<IntegerDots<Q4_0>>();
const DecodeLaunches kDecodeQ8_0 = DecodeLaunchesOf<IntegerDots<Q8_0>>();
const DecodeLaunches kDecodeMxfp4 = DecodeLaunchesOf<IntegerDots<Mxfp4>>();

}  // namespace moetier::kernels::cuda
