#ifndef MOETIER_TESTS_SIM_GPU_CANARIES_H_
#define MOETIER_TESTS_SIM_GPU_CANARIES_H_

#include <cstdint>
#include <string_view>

namespace moetier {

// Faults planted in the card. To the checks they look as faults of the device or the executor
// would; one that is not noticed shows a check that is broken.
enum class GpuCanary : uint8_t {
  kNone,
  kRunBeforeCopyLanded,    // a copy is told to be done before it is
  kVictimOverwritten,      // what leaves a slot is read after the next expert is written there
  kStaleSlot,              // a copy into a slot is told to be done, and the slot has what it had
  kSlotGivenBackUnderRun,  // a slot that has come to VRAM loses its bytes while runs are awaited
  kRunDoneBeforeResults,
  kMemoryKept,
  kHostKeptShown,
  kAddressesKept,
};

struct NamedGpuCanary {
  GpuCanary canary;
  std::string_view name;
};

inline constexpr NamedGpuCanary kAllGpuCanaries[] = {
    {GpuCanary::kRunBeforeCopyLanded, "run before its copy landed"},
    {GpuCanary::kVictimOverwritten, "victim overwritten"},
    {GpuCanary::kStaleSlot, "stale slot"},
    {GpuCanary::kSlotGivenBackUnderRun, "slot given back under a run"},
    {GpuCanary::kRunDoneBeforeResults, "run done before its results"},
    {GpuCanary::kMemoryKept, "memory kept"},
    {GpuCanary::kHostKeptShown, "host memory kept shown"},
    {GpuCanary::kAddressesKept, "addresses kept"},
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_GPU_CANARIES_H_
