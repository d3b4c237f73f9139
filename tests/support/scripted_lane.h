#ifndef MOETIER_TESTS_SUPPORT_SCRIPTED_LANE_H_
#define MOETIER_TESTS_SUPPORT_SCRIPTED_LANE_H_

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "base/unique_fd.h"
#include "daemon/transport/unix_listener.h"
#include "moetier/fastlane_wire.h"
#include "tests/support/temp_folder.h"

namespace moetier::testing {

// A fast-lane socket that takes one client, reads its first message and sends what `answer` does.
// Lifetime: the destructor waits for that, so a client must have come.
class ScriptedLane {
 public:
  explicit ScriptedLane(std::function<void(int socket)> answer)
      : path_(folder_.File("run/socket")),
        listener_(
            UnixListener::Bind({.path = path_ + MOETIER_WIRE_SOCKET, .mode = 0600, .group = {}},
                               SOCK_SEQPACKET)
                .value()) {
    REQUIRE(listener_.Listen().has_value());
    REQUIRE(fcntl(listener_.descriptor(), F_SETFL, 0) == 0);  // accept waits
    thread_ = std::jthread([this, answer = std::move(answer)] {
      const UniqueFd socket(accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
      std::array<char, MOETIER_WIRE_MAX_MESSAGE> message{};
      (void)recv(socket.get(), message.data(), message.size(), 0);
      answer(socket.get());
    });
  }

  // What clients are told: the path of the gRPC socket beside it.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  const TempFolder folder_;
  const std::string path_;
  UnixListener listener_;
  std::jthread thread_;
};

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_SUPPORT_SCRIPTED_LANE_H_
