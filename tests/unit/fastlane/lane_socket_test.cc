#include "daemon/fastlane/lane_socket.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <utility>

#include "moetier/fastlane_wire.h"

namespace moetier {
namespace {

// Two ends of a lane's socket.
struct Ends {
  Ends() {
    std::array<int, 2> ends{};
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
    ours = UniqueFd(ends[0]);
    theirs = UniqueFd(ends[1]);
  }
  // The peer sends so many bytes and so many descriptors of its end.
  void Send(size_t bytes, size_t files) const {
    std::vector<char> text(bytes);
    std::vector<char> control(CMSG_SPACE(files * sizeof(int)));
    iovec part{.iov_base = text.data(), .iov_len = text.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (files > 0) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(files * sizeof(int));
      const std::vector<int> numbers(files, theirs.get());
      std::memcpy(CMSG_DATA(header), numbers.data(), files * sizeof(int));
    }
    REQUIRE(sendmsg(theirs.get(), &message, 0) == static_cast<ssize_t>(bytes));
  }

  UniqueFd ours;
  UniqueFd theirs;
};

Error Refused(const LaneMessage& message) {
  const Status whole = CheckWhole(message);
  REQUIRE_FALSE(whole.has_value());
  return whole.error();
}

}  // namespace

TEST_CASE("Lane socket: a message that is not whole is told by what is missing", "[fastlane]") {
  const Ends ends;
  ends.Send(MOETIER_WIRE_MAX_MESSAGE, MOETIER_WIRE_MAX_FILES);
  CHECK(CheckWhole(ReceiveOnLane(ends.ours.get())).has_value());
  ends.Send(MOETIER_WIRE_MAX_MESSAGE + 1, 1);
  CHECK(Refused(ReceiveOnLane(ends.ours.get())).message ==
        "the first message has more than 4096 bytes");
  ends.Send(1, MOETIER_WIRE_MAX_FILES + 1);
  const Error many = Refused(ReceiveOnLane(ends.ours.get()));
  CHECK(many.message == "the first message brings more than 64 files");
  CHECK(many.reason == Reason::kTooLarge);
}

TEST_CASE("Lane socket: files for which this process has no room are its own want, not the peer's",
          "[fastlane]") {
  const Ends ends;
  ends.Send(1, 3);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  // Room for one more.
  const UniqueFd lowest(fcntl(ends.ours.get(), F_DUPFD_CLOEXEC, 0));
  UniqueFd next(fcntl(ends.ours.get(), F_DUPFD_CLOEXEC, 0));
  const rlimit little{.rlim_cur = static_cast<rlim_t>(next.get()) + 1, .rlim_max = before.rlim_max};
  next.Reset();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &little) == 0);
  const LaneMessage message = ReceiveOnLane(ends.ours.get());
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(message.files.size() == 1);
  const Error error = Refused(message);
  CHECK(error.code == ErrorCode::kExhausted);
  CHECK(error.reason == Reason::kQuota);
  CHECK(error.message ==
        "1 of the first message's files reached the daemon, which can hold no more: end other "
        "sessions, or "
        "raise LimitNOFILE of the unit (`ulimit -n`)");
}

}  // namespace moetier
