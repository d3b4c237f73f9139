#include "kernels/cuda/decode_launches.h"

// Float types.

namespace moetier::kernels::cuda {

const DecodeLaunches kDecodeBf16 = DecodeLaunchesOf<FloatDots<Bf16>>();
const DecodeLaunches kDecodeF16 = DecodeLaunchesOf<FloatDots<F16>>();
const DecodeLaunches kDecodeF32 = DecodeLaunchesOf<FloatDots<F32>>();

}  // namespace moetier::kernels::cuda
