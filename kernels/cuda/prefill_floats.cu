#include "kernels/cuda/float_tile.h"
#include "kernels/cuda/launch_tables.h"
#include "kernels/cuda/prefill_bodies.h"

// Float types.

namespace moetier::kernels::cuda {

const PrefillLaunches kPrefillBf16 = {LaunchPrefillGateUpOf<FloatTile<Bf16>>,
                                      LaunchPrefillDownOf<FloatTile<Bf16>>};
const PrefillLaunches kPrefillF16 = {LaunchPrefillGateUpOf<FloatTile<F16>>,
                                     LaunchPrefillDownOf<FloatTile<F16>>};
const PrefillLaunches kPrefillF32 = {LaunchPrefillGateUpOf<FloatTile<F32>>,
                                     LaunchPrefillDownOf<FloatTile<F32>>};

}  // namespace moetier::kernels::cuda
