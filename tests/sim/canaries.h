#ifndef MOETIER_TESTS_SIM_CANARIES_H_
#define MOETIER_TESTS_SIM_CANARIES_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "tests/sim/ledger_port.h"

namespace moetier {

// Ledgers broken on purpose: a checker that does not notice one of them is broken itself.
enum class Canary : uint8_t {
  kNone,
  kResidentBeforeLanding,
  kSlotReusedAfterCancel,
  kGenerationUnchecked,
  kLeaseLostOnSessionEnd,
  kLeaseLeakedOnSessionEnd,
  kWaiterDropped,
  kClassMixUp,
  kWaveWithoutReservation,
  kVictimFreedBeforeDrain,
  kWaveOvertakes,
  kPrefetchTakesReservedSlot,
  kPrefetchPassesWaitingWave,
  kLateJoinerNotTold,
  kPromotionLost,
  kCopiedSlotReused,
  kRetiredSlotUsed,
  kVictimNotTold,
};

inline constexpr Canary kAllCanaries[] = {
    Canary::kResidentBeforeLanding,
    Canary::kSlotReusedAfterCancel,
    Canary::kGenerationUnchecked,
    Canary::kLeaseLostOnSessionEnd,
    Canary::kWaiterDropped,
    Canary::kClassMixUp,
    Canary::kWaveWithoutReservation,
    Canary::kVictimFreedBeforeDrain,
    Canary::kLeaseLeakedOnSessionEnd,
    Canary::kWaveOvertakes,
    Canary::kPrefetchTakesReservedSlot,
    Canary::kPrefetchPassesWaitingWave,
    Canary::kLateJoinerNotTold,
    Canary::kPromotionLost,
    Canary::kCopiedSlotReused,
    Canary::kRetiredSlotUsed,
    Canary::kVictimNotTold,
};

std::string_view CanaryName(Canary canary);

// The door that behaves as the canary says; for kClassMixUp each ledger knows the keys of both
// classes.
std::unique_ptr<LedgerPort> MakePort(Canary canary,
                                     PerClass<std::unique_ptr<ResidencyLedger>> ledgers);

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_CANARIES_H_
