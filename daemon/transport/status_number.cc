#include "daemon/transport/status_number.h"

namespace moetier {

// https://grpc.github.io/grpc/core/md_doc_statuscodes.html; a test compares them.
uint32_t StatusNumber(ErrorCode code) {
  switch (code) {
    case ErrorCode::kCancelled:
      return 1;
    case ErrorCode::kInvalidArgument:
      return 3;
    case ErrorCode::kDeadlineExceeded:
      return 4;
    case ErrorCode::kNotFound:
      return 5;
    case ErrorCode::kAlreadyExists:
      return 6;
    case ErrorCode::kPermissionDenied:
      return 7;
    case ErrorCode::kExhausted:
      return 8;
    case ErrorCode::kFailedPrecondition:
      return 9;
    case ErrorCode::kUnimplemented:
      return 12;
    case ErrorCode::kInternal:
      return 13;
    case ErrorCode::kUnavailable:
      return 14;
    case ErrorCode::kDataLoss:
      return 15;
  }
  return 13;
}

}  // namespace moetier
