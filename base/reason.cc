#include "base/reason.h"

namespace moetier {

std::string_view ReasonName(Reason reason) {
  switch (reason) {
    case Reason::kUnspecified:
      return "UNSPECIFIED";
    case Reason::kUnknownModel:
      return "UNKNOWN_MODEL";
    case Reason::kUnknownLayer:
      return "UNKNOWN_LAYER";
    case Reason::kUnknownSession:
      return "UNKNOWN_SESSION";
    case Reason::kBadRows:
      return "BAD_ROWS";
    case Reason::kBadTopK:
      return "BAD_TOP_K";
    case Reason::kBadShape:
      return "BAD_SHAPE";
    case Reason::kBadExpertId:
      return "BAD_EXPERT_ID";
    case Reason::kDuplicateExpert:
      return "DUPLICATE_EXPERT";
    case Reason::kNotFinite:
      return "NOT_FINITE";
    case Reason::kBadType:
      return "BAD_TYPE";
    case Reason::kRequestIdInUse:
      return "REQUEST_ID_IN_USE";
    case Reason::kNoOpen:
      return "NO_OPEN";
    case Reason::kTooLarge:
      return "TOO_LARGE";
    case Reason::kBadLane:
      return "BAD_LANE";
    case Reason::kBadPool:
      return "BAD_POOL";
    case Reason::kUnknownLease:
      return "UNKNOWN_LEASE";
    case Reason::kNoKernel:
      return "NO_KERNEL";
    case Reason::kDraining:
      return "DRAINING";
    case Reason::kQuarantined:
      return "QUARANTINED";
    case Reason::kNoRoom:
      return "NO_ROOM";
    case Reason::kQuota:
      return "QUOTA";
    case Reason::kDeadline:
      return "DEADLINE";
    case Reason::kCancelled:
      return "CANCELLED";
    case Reason::kNotYet:
      return "NOT_YET";
    case Reason::kLoading:
      return "LOADING";
    case Reason::kDeviceLost:
      return "DEVICE_LOST";
    case Reason::kReadError:
      return "READ_ERROR";
    case Reason::kShortRead:
      return "SHORT_READ";
    case Reason::kChecksum:
      return "CHECKSUM";
    case Reason::kBadGguf:
      return "BAD_GGUF";
    case Reason::kMissingShard:
      return "MISSING_SHARD";
    case Reason::kBadStore:
      return "BAD_STORE";
    case Reason::kStaleStore:
      return "STALE_STORE";
    case Reason::kStoreLocked:
      return "STORE_LOCKED";
    case Reason::kUnsupportedType:
      return "UNSUPPORTED_TYPE";
    case Reason::kUnsupportedModel:
      return "UNSUPPORTED_MODEL";
    case Reason::kOutOfSpace:
      return "OUT_OF_SPACE";
    case Reason::kMemoryLimit:
      return "MEMORY_LIMIT";
    case Reason::kBadConfig:
      return "BAD_CONFIG";
    case Reason::kIo:
      return "IO";
    case Reason::kBudgetTooSmall:
      return "BUDGET_TOO_SMALL";
    case Reason::kAlreadyRunning:
      return "ALREADY_RUNNING";
  }
  return "UNSPECIFIED";
}

std::string_view ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case ErrorCode::kNotFound:
      return "NOT_FOUND";
    case ErrorCode::kAlreadyExists:
      return "ALREADY_EXISTS";
    case ErrorCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case ErrorCode::kExhausted:
      return "RESOURCE_EXHAUSTED";
    case ErrorCode::kDataLoss:
      return "DATA_LOSS";
    case ErrorCode::kUnavailable:
      return "UNAVAILABLE";
    case ErrorCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case ErrorCode::kCancelled:
      return "CANCELLED";
    case ErrorCode::kPermissionDenied:
      return "PERMISSION_DENIED";
    case ErrorCode::kUnimplemented:
      return "UNIMPLEMENTED";
    case ErrorCode::kInternal:
      return "INTERNAL";
  }
  return "INTERNAL";
}

}  // namespace moetier
