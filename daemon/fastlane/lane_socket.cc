#include "daemon/fastlane/lane_socket.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "moetier/fastlane_wire.h"

namespace moetier {
namespace {

constexpr size_t kSentFiles = MOETIER_WIRE_MAX_FILES;

// Every descriptor that came is owned from here on, whatever the message turns out to be.
void TakeFiles(msghdr& message, std::vector<UniqueFd>& files) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      files.emplace_back(fd);
    }
  }
}

std::optional<ucred> Peer(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return std::nullopt;
  return peer;
}

}  // namespace

Status CheckWhole(const LaneMessage& message) {
  if (message.too_long) {
    return Error{ErrorCode::kInvalidArgument, Reason::kTooLarge,
                 fmt::format("the first message has more than {} bytes", MOETIER_WIRE_MAX_MESSAGE)};
  }
  if (!message.lost_files) return Ok{};
  if (message.files.size() >= MOETIER_WIRE_MAX_FILES) {
    return Error{
        ErrorCode::kInvalidArgument, Reason::kTooLarge,
        fmt::format("the first message brings more than {} files", MOETIER_WIRE_MAX_FILES)};
  }
  return Error{
      ErrorCode::kExhausted, Reason::kQuota,
      fmt::format("{} of the first message's files reached the daemon, which can hold no "
                  "more: end other sessions, or raise LimitNOFILE of the unit (`ulimit -n`)",
                  message.files.size())};
}

LaneMessage ReceiveOnLane(int socket) {
  LaneMessage received;
  received.bytes.resize(MOETIER_WIRE_MAX_MESSAGE);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(MOETIER_WIRE_MAX_FILES * sizeof(int))> control{};
  iovec bytes{.iov_base = received.bytes.data(), .iov_len = received.bytes.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t length = -1;
  do {
    length = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (length < 0 && errno == EINTR);
  if (length < 0) {
    if (errno != EAGAIN) received.kind = LaneMessage::Kind::kEnded;
    return received;
  }
  TakeFiles(message, received.files);
  received.bytes.resize(static_cast<size_t>(length));
  // A message of no bytes reads like an end, and is one: nobody who means well sends it.
  received.kind = length == 0 ? LaneMessage::Kind::kEnded : LaneMessage::Kind::kMessage;
  received.too_long = (message.msg_flags & MSG_TRUNC) != 0;
  received.lost_files = (message.msg_flags & MSG_CTRUNC) != 0;
  return received;
}

bool SendOnLane(int socket, std::span<const std::byte> bytes, std::span<const int> files) {
  MOE_CHECK(files.size() <= kSentFiles, "{} descriptors", files.size());
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kSentFiles * sizeof(int))> control{};
  iovec part{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!files.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(files.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(files.size_bytes());
    std::memcpy(CMSG_DATA(header), files.data(), files.size_bytes());
  }
  ssize_t sent = -1;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

pid_t PeerProcess(int socket) {
  const std::optional<ucred> peer = Peer(socket);
  return peer ? peer->pid : 0;
}

std::optional<uid_t> PeerUser(int socket) {
  const std::optional<ucred> peer = Peer(socket);
  return peer ? std::optional(peer->uid) : std::nullopt;
}

}  // namespace moetier
