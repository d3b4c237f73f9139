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
  }
  return "?";
}

bool GivesWrongBytes(ExecutorCanary canary) {
  return canary == ExecutorCanary::kReadOfAnotherExpert ||
         canary == ExecutorCanary::kShortReadTakenAsWhole ||
         canary == ExecutorCanary::kReadDoneBeforeBytes;
}

}  // namespace moetier
