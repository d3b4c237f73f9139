#ifndef MOETIER_DAEMON_RPC_CALL_DEADLINE_H_
#define MOETIER_DAEMON_RPC_CALL_DEADLINE_H_

#include <grpcpp/server_context.h>

#include <chrono>
#include <optional>

namespace moetier {

// What the client gave the call, from now on; none when it gave no deadline. gRPC states deadlines
// on the wall clock, and a call without one has a time point beyond reach.
inline std::optional<std::chrono::microseconds> TimeLeft(const grpc::CallbackServerContext& call) {
  const auto left = call.deadline() - std::chrono::system_clock::now();
  if (left > std::chrono::hours(24)) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::microseconds>(left);
}

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_CALL_DEADLINE_H_
