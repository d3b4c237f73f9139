#ifndef MOETIER_KERNELS_CUDA_DECODE_LAUNCHES_H_
#define MOETIER_KERNELS_CUDA_DECODE_LAUNCHES_H_

#include "kernels/cuda/decode_bodies.h"
#include "kernels/cuda/launch_tables.h"
#include "kernels/cuda/staged_bodies.h"

// The decode launches of one weight type, for the .cu files. Device code, C++17.

namespace moetier::kernels::cuda {

template <class Dots>
constexpr DecodeLaunches DecodeLaunchesOf() {
  return {LaunchGateUpOf<Dots>, LaunchDownOf<Dots>, LaunchStagedGateUpOf<Dots>,
          LaunchStagedDownOf<Dots>};
}

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_DECODE_LAUNCHES_H_
