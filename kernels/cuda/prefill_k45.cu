#include "kernels/cuda/integer_tile.h"
#include "kernels/cuda/launch_tables.h"
#include "kernels/cuda/prefill_bodies.h"

// Types with a scale and a minimum for 32 columns.

namespace moetier::kernels::cuda {

const PrefillLaunches kPrefillQ4K = {LaunchPrefillGateUpOf<IntegerTile<Q4K<const uint8_t*>>>,
                                     LaunchPrefillDownOf<IntegerTile<Q4K<const uint8_t*>>>};
const PrefillLaunches kPrefillQ5K = {LaunchPrefillGateUpOf<IntegerTile<Q5K<const uint8_t*>>>,
                                     LaunchPrefillDownOf<IntegerTile<Q5K<const uint8_t*>>>};

}  // namespace moetier::kernels::cuda
