#include "tests/sim/executor_canaries.h"

namespace moetier {

std::string_view CanaryName(ExecutorCanary canary) {
  switch (canary) {
    case ExecutorCanary::kNone:
      return "none";
    case ExecutorCanary::kReadOfAnotherExpert:
      return "read of another expert";
    case ExecutorCanary::kShortReadTakenAsWhole:
      return "short read taken as whole";
    case ExecutorCanary::kReadDoneBeforeBytes:
      return "read done before its bytes";
    case ExecutorCanary::kCancelledReadLands:
      return "cancelled read lands";
    case ExecutorCanary::kLandingLost:
      return "landing lost";
    case ExecutorCanary::kCopyDoneBeforeBytes:
      return "copy done before its bytes";
    case ExecutorCanary::kFailedCopyTakenAsDone:
      return "failed copy taken as done";
    case ExecutorCanary::kCancelledCopyLands:
      return "cancelled copy lands";
    case ExecutorCanary::kCopyIntoNeighbour:
      return "copy into the neighbour";
    case ExecutorCanary::kWriteBackAfterOverwrite:
      return "write-back after overwrite";
    case ExecutorCanary::kCopyEndLost:
      return "end of a copy lost";
    case ExecutorCanary::kRunNotComputed:
      return "run not computed";
    case ExecutorCanary::kRunOfOtherRows:
      return "run of other rows";
    case ExecutorCanary::kLossUnseen:
      return "loss unseen";
    case ExecutorCanary::kAnswersSwapped:
      return "answers swapped";
    case ExecutorCanary::kAnsweredTwice:
      return "answered twice";
    case ExecutorCanary::kMemoryGivenBackEarly:
      return "memory given back early";
    case ExecutorCanary::kVramGivenBackEarly:
      return "VRAM given back early";
    case ExecutorCanary::kPinForgotten:
      return "pin forgotten";
    case ExecutorCanary::kMaskedPickUnnamed:
      return "masked pick unnamed";
    case ExecutorCanary::kMaskedTooMany:
      return "too many picks masked";
    case ExecutorCanary::kMaskedThoughExact:
      return "masked though exact";
    case ExecutorCanary::kLeaseOfOldGeneration:
      return "lease of an old generation";
    case ExecutorCanary::kLeaseForgotten:
      return "lease forgotten";
    case ExecutorCanary::kLeasedBytesChanged:
      return "leased bytes changed";
    case ExecutorCanary::kLeasesUnseenByLeases:
      return "leases unseen by leases";
    case ExecutorCanary::kLeasesUnseenByPins:
      return "leases unseen by pins";
    case ExecutorCanary::kLeasesUnseenByBudgets:
      return "leases unseen by budgets";
    case ExecutorCanary::kUnloadedWhileLeased:
      return "unloaded while leased";
    case ExecutorCanary::kQuotaIgnored:
      return "quota ignored";
    case ExecutorCanary::kSessionEndLost:
      return "end of a session lost";
    case ExecutorCanary::kCancelLost:
      return "cancel lost";
    case ExecutorCanary::kReleasedKeyMissed:
      return "key of a release missed";
    case ExecutorCanary::kKeptLeaseReleased:
      return "kept lease released";
    case ExecutorCanary::kEngineAnswerLost:
      return "engine's answer lost";
    case ExecutorCanary::kEngineAnsweredTwice:
      return "engine answered twice";
    case ExecutorCanary::kTransferEndLost:
      return "end of a transfer lost";
    case ExecutorCanary::kTransferEndToldTwice:
      return "transfer told to end twice";
    case ExecutorCanary::kFailedTransferToldAsLanded:
      return "failed transfer told as landed";
    case ExecutorCanary::kLandedTooEarly:
      return "landed told too early";
    case ExecutorCanary::kVictimLost:
      return "victim not told";
    case ExecutorCanary::kVictimToldTwice:
      return "victim told twice";
    case ExecutorCanary::kVictimToldLate:
      return "victim told late";
    case ExecutorCanary::kLeaseOutlivesLoss:
      return "lease outlives the loss";
    case ExecutorCanary::kLostLeaseUntold:
      return "lost lease not told";
    case ExecutorCanary::kLostLeaseToldTwice:
      return "lost lease told twice";
    case ExecutorCanary::kLossAnswerLost:
      return "answer to a loss lost";
  }
  return "?";
}

bool GivesWrongBytes(ExecutorCanary canary) {
  return canary == ExecutorCanary::kReadOfAnotherExpert ||
         canary == ExecutorCanary::kShortReadTakenAsWhole ||
         canary == ExecutorCanary::kReadDoneBeforeBytes;
}

}  // namespace moetier
