#ifndef MOETIER_DAEMON_FASTLANE_LANE_SOCKET_H_
#define MOETIER_DAEMON_FASTLANE_LANE_SOCKET_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "daemon/transport/unix_socket.h"

// The fast lane's Unix socket. No call blocks.

namespace moetier {

// A listening SOCK_SEQPACKET socket with the rights of `options`. Errors as PrepareUnixSocket and
// OpenUnixSocket have them. The caller holds the StateLock.
Result<UniqueFd> ListenOnLane(const UnixSocketOptions& options);

struct LaneMessage {
  enum class Kind : uint8_t { kNone, kEnded, kMessage };
  Kind kind = Kind::kNone;
  bool cut = false;  // longer than a message may be, or with more descriptors than may come
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> files;  // close-on-exec
};
// What the peer has sent.
LaneMessage ReceiveOnLane(int socket);

// False when the peer does not take it, now or any more.
bool SendOnLane(int socket, std::span<const std::byte> bytes, std::span<const int> files);

// The peer's process, 0 if unknown.
pid_t PeerProcess(int socket);

}  // namespace moetier

#endif  // MOETIER_DAEMON_FASTLANE_LANE_SOCKET_H_
