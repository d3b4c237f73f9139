#ifndef MOETIER_KERNELS_CUDA_WEIGHT_LAUNCHES_H_
#define MOETIER_KERNELS_CUDA_WEIGHT_LAUNCHES_H_

#include "kernels/cuda/decode_bodies.h"
#include "kernels/cuda/decode_table.h"
#include "kernels/cuda/staged_bodies.h"

// All launches of one weight type, for the .cu files. Device code, C++17.

namespace moetier::kernels::cuda {

template <class Dots>
constexpr DecodeLaunches LaunchesOf() {
  return {LaunchGateUpOf<Dots>, LaunchDownOf<Dots>, LaunchStagedGateUpOf<Dots>,
          LaunchStagedDownOf<Dots>};
}

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_WEIGHT_LAUNCHES_H_
