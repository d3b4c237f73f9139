#ifndef MOETIER_DAEMON_CTL_DAEMON_CHANNEL_H_
#define MOETIER_DAEMON_CTL_DAEMON_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

#include "base/result.h"

namespace moetier {

// Connects to the daemon's Unix socket and waits up to two seconds for an answer. No answer is
// kUnavailable without a reason, a socket that this user may not use kPermissionDenied; both say
// what to do. (gRPC hands channels out shared.)
Result<std::shared_ptr<grpc::Channel>> ConnectToDaemon(const std::string& socket_path);

// The error of a failed call, with the daemon's reason and words; `what` says what was asked.
Error CallError(const grpc::Status& status, const std::string& what);

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_DAEMON_CHANNEL_H_
