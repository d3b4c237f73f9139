#include "kernels/cuda/integer_tile.h"
#include "kernels/cuda/launch_tables.h"
#include "kernels/cuda/prefill_bodies.h"

// Types whose block of 32 columns has one scale.

namespace moetier::kernels::cuda {

const PrefillLaunches kPrefillQ4_0 = {LaunchPrefillGateUpOf<IntegerTile<Q4_0<const uint8_t*>>>,
                                      LaunchPrefillDownOf<IntegerTile<Q4_0<const uint8_t*>>>};
const PrefillLaunches kPrefillQ8_0 = {LaunchPrefillGateUpOf<IntegerTile<Q8_0<const uint8_t*>>>,
                                      LaunchPrefillDownOf<IntegerTile<Q8_0<const uint8_t*>>>};
const PrefillLaunches kPrefillMxfp4 = {LaunchPrefillGateUpOf<IntegerTile<Mxfp4<const uint8_t*>>>,
                                       LaunchPrefillDownOf<IntegerTile<Mxfp4<const uint8_t*>>>};

}  // namespace moetier::kernels::cuda
