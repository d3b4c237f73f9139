#ifndef MOETIER_TESTS_SIM_EXECUTOR_CANARIES_H_
#define MOETIER_TESTS_SIM_EXECUTOR_CANARIES_H_

#include <cstdint>
#include <string_view>

namespace moetier {

// Faults planted in what lies around the executor: its drive, its device, the ports between them
// and its callers. To the checks they look as a fault of the executor's own flow would, which
// ledger_sim cannot see; one that is not noticed shows a check that is broken.
enum class ExecutorCanary : uint8_t {
  kNone,
  // The drive; landed records are not compared with their checksums then.
  kReadOfAnotherExpert,
  kShortReadTakenAsWhole,
  kReadDoneBeforeBytes,
  kCancelledReadLands,
  kLandingLost,
  // The device.
  kCopyDoneBeforeBytes,
  kFailedCopyTakenAsDone,
  kCancelledCopyLands,
  kCopyIntoNeighbour,
  kWriteBackAfterOverwrite,
  kCopyEndLost,
  kRunNotComputed,
  kRunOfOtherRows,
  kLossUnseen,
  // The callers and the operator.
  kAnswersSwapped,
  kAnsweredTwice,
  kMemoryGivenBackEarly,
  kVramGivenBackEarly,
  kPinForgotten,
  // Masking.
  kMaskedPickUnnamed,
  kMaskedTooMany,
  kMaskedThoughExact,
  // The sessions that lease and transfer, and what they are told.
  kLeaseOfOldGeneration,
  kLeaseForgotten,
  kLeasedBytesChanged,
  kLeasesUnseenByLeases,
  kLeasesUnseenByPins,
  kLeasesUnseenByBudgets,
  kUnloadedWhileLeased,
  kQuotaIgnored,
  kSessionEndLost,
  kCancelLost,
  kReleasedKeyMissed,
  kKeptLeaseReleased,
  kEngineAnswerLost,
  kEngineAnsweredTwice,
  kTransferEndLost,
  kTransferEndToldTwice,
  kFailedTransferToldAsLanded,
  kLandedTooEarly,
  kVictimLost,
  kVictimToldTwice,
  kVictimToldLate,
  // The loss of the device.
  kLeaseOutlivesLoss,
  kLostLeaseUntold,
  kLostLeaseToldTwice,
  kLossAnswerLost,
};

inline constexpr ExecutorCanary kAllExecutorCanaries[] = {
    ExecutorCanary::kReadOfAnotherExpert,
    ExecutorCanary::kShortReadTakenAsWhole,
    ExecutorCanary::kReadDoneBeforeBytes,
    ExecutorCanary::kCancelledReadLands,
    ExecutorCanary::kLandingLost,
    ExecutorCanary::kCopyDoneBeforeBytes,
    ExecutorCanary::kFailedCopyTakenAsDone,
    ExecutorCanary::kCancelledCopyLands,
    ExecutorCanary::kCopyIntoNeighbour,
    ExecutorCanary::kWriteBackAfterOverwrite,
    ExecutorCanary::kCopyEndLost,
    ExecutorCanary::kRunNotComputed,
    ExecutorCanary::kRunOfOtherRows,
    ExecutorCanary::kLossUnseen,
    ExecutorCanary::kAnswersSwapped,
    ExecutorCanary::kAnsweredTwice,
    ExecutorCanary::kMemoryGivenBackEarly,
    ExecutorCanary::kVramGivenBackEarly,
    ExecutorCanary::kPinForgotten,
    ExecutorCanary::kMaskedPickUnnamed,
    ExecutorCanary::kMaskedTooMany,
    ExecutorCanary::kMaskedThoughExact,
    ExecutorCanary::kLeaseOfOldGeneration,
    ExecutorCanary::kLeaseForgotten,
    ExecutorCanary::kLeasedBytesChanged,
    ExecutorCanary::kLeasesUnseenByLeases,
    ExecutorCanary::kLeasesUnseenByPins,
    ExecutorCanary::kLeasesUnseenByBudgets,
    ExecutorCanary::kUnloadedWhileLeased,
    ExecutorCanary::kQuotaIgnored,
    ExecutorCanary::kSessionEndLost,
    ExecutorCanary::kCancelLost,
    ExecutorCanary::kReleasedKeyMissed,
    ExecutorCanary::kKeptLeaseReleased,
    ExecutorCanary::kEngineAnswerLost,
    ExecutorCanary::kEngineAnsweredTwice,
    ExecutorCanary::kTransferEndLost,
    ExecutorCanary::kTransferEndToldTwice,
    ExecutorCanary::kFailedTransferToldAsLanded,
    ExecutorCanary::kLandedTooEarly,
    ExecutorCanary::kVictimLost,
    ExecutorCanary::kVictimToldTwice,
    ExecutorCanary::kVictimToldLate,
    ExecutorCanary::kLeaseOutlivesLoss,
    ExecutorCanary::kLostLeaseUntold,
    ExecutorCanary::kLostLeaseToldTwice,
    ExecutorCanary::kLossAnswerLost,
};

std::string_view CanaryName(ExecutorCanary canary);

// The drive gives wrong bytes, which a checksum would see.
bool GivesWrongBytes(ExecutorCanary canary);

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_EXECUTOR_CANARIES_H_
