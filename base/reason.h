#ifndef MOETIER_BASE_REASON_H_
#define MOETIER_BASE_REASON_H_

#include <cstdint>
#include <string_view>

namespace moetier {

// Coarse class of an error; daemon/rpc maps each to one gRPC code.
enum class ErrorCode : uint8_t {
  kInvalidArgument,
  kNotFound,
  kAlreadyExists,
  kFailedPrecondition,
  kExhausted,
  kDataLoss,
  kUnavailable,
  kDeadlineExceeded,
  kCancelled,
  kPermissionDenied,
  kUnimplemented,
  kInternal,
};

// The exact reason, spelt alike in status details, stream replies, logs and metrics. Same names
// and numbers as moetier.v1.Reason (a test compares them); numbers are never reused.
enum class Reason : uint16_t {
  kUnspecified = 0,
  // Requests.
  kUnknownModel = 1,
  kUnknownLayer = 2,
  kUnknownSession = 3,
  kBadRows = 4,  // rows is 0 or above the grant
  kBadTopK = 5,
  kBadShape = 6,         // a field's length does not follow from rows, top_k and hidden
  kBadExpertId = 7,      // out of range, -1 included
  kDuplicateExpert = 8,  // twice in one row
  kNotFinite = 9,        // NaN or Inf in hidden or weights
  kBadType = 10,         // unknown dtype or enum value
  kRequestIdInUse = 11,
  kNoOpen = 12,    // the stream's first message was not Open
  kTooLarge = 13,  // above a limit of the grant
  kBadLane = 14,
  kBadPool = 15,       // no such pool, or one of the wrong kind
  kUnknownLease = 16,  // not the session's, or ended
  // State.
  kNoKernel = 20,  // the model's type has no kernel: it can be held, not computed
  kDraining = 21,
  kQuarantined = 22,
  kNoRoom = 23,  // every slot is leased or reserved
  kQuota = 24,
  kDeadline = 25,
  kCancelled = 26,
  kNotYet = 27,  // a call that a later version implements
  kLoading = 28,
  kDeviceLost = 29,  // and with it all that was in its memory
  // Bytes.
  kReadError = 40,
  kShortRead = 41,
  kChecksum = 42,
  kBadGguf = 43,
  kMissingShard = 44,
  kBadStore = 45,
  kStaleStore = 46,  // the store's fingerprint is not the source's
  kStoreLocked = 47,
  kUnsupportedType = 48,
  kUnsupportedModel = 49,
  kOutOfSpace = 50,
  // Host.
  kMemoryLimit = 60,
  kBadConfig = 61,
  kIo = 62,
  kBudgetTooSmall = 63,
  kAlreadyRunning = 64,
};

// "UNKNOWN_MODEL" for kUnknownModel.
std::string_view ReasonName(Reason reason);
std::string_view ErrorCodeName(ErrorCode code);

}  // namespace moetier

#endif  // MOETIER_BASE_REASON_H_
