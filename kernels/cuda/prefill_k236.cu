#include "kernels/cuda/integer_tile.h"
#include "kernels/cuda/launch_tables.h"
#include "kernels/cuda/prefill_bodies.h"

// Types with a scale for 16 columns.

namespace moetier::kernels::cuda {

const PrefillLaunches kPrefillQ6K = {LaunchPrefillGateUpOf<IntegerTile<Q6K<const uint8_t*>>>,
                                     LaunchPrefillDownOf<IntegerTile<Q6K<const uint8_t*>>>};
const PrefillLaunches kPrefillQ2K = {LaunchPrefillGateUpOf<IntegerTile<Q2K<const uint8_t*>>>,
                                     LaunchPrefillDownOf<IntegerTile<Q2K<const uint8_t*>>>};
const PrefillLaunches kPrefillQ3K = {LaunchPrefillGateUpOf<IntegerTile<Q3K<const uint8_t*>>>,
                                     LaunchPrefillDownOf<IntegerTile<Q3K<const uint8_t*>>>};

}  // namespace moetier::kernels::cuda
