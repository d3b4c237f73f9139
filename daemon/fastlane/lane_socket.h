#ifndef MOETIER_DAEMON_FASTLANE_LANE_SOCKET_H_
#define MOETIER_DAEMON_FASTLANE_LANE_SOCKET_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

// Messages on the fast lane's Unix sockets. No call blocks.

namespace moetier {

struct LaneMessage {
  enum class Kind : uint8_t { kNone, kEnded, kMessage };
  Kind kind = Kind::kNone;
  bool too_long = false;    // there was more of it
  bool lost_files = false;  // more descriptors came with it than these
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> files;  // close-on-exec
};
// kInvalidArgument, kTooLarge for a message that is not whole by the peer's fault; kExhausted,
// kQuota where this process could not take its descriptors.
Status CheckWhole(const LaneMessage& message);
// What the peer has sent.
LaneMessage ReceiveOnLane(int socket);

// False when the peer does not take it, now or any more.
bool SendOnLane(int socket, std::span<const std::byte> bytes, std::span<const int> files);

// The peer's process, 0 if unknown, and its user when it connected; none if unknown.
pid_t PeerProcess(int socket);
std::optional<uid_t> PeerUser(int socket);

}  // namespace moetier

#endif  // MOETIER_DAEMON_FASTLANE_LANE_SOCKET_H_
