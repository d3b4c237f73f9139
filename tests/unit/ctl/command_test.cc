#include "daemon/ctl/command.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "base/unique_fd.h"
#include "daemon/ctl/daemon_channel.h"
#include "moetier/v1/common.pb.h"
#include "tests/support/as_nobody.h"
#include "tests/support/temp_folder.h"

namespace moetier {

TEST_CASE("ExitCodeOf: no daemon is 3, an interruption 130, everything else 4", "[ctl]") {
  CHECK(ExitCodeOf({ErrorCode::kUnavailable, Reason::kUnspecified, ""}) == ExitCode::kUnreachable);
  CHECK(ExitCodeOf({ErrorCode::kUnavailable, Reason::kDraining, ""}) == ExitCode::kFailed);
  CHECK(ExitCodeOf({ErrorCode::kUnavailable, Reason::kIo, ""}) == ExitCode::kFailed);
  CHECK(ExitCodeOf({ErrorCode::kCancelled, Reason::kCancelled, ""}) == ExitCode::kInterrupted);
  CHECK(ExitCodeOf({ErrorCode::kExhausted, Reason::kOutOfSpace, ""}) == ExitCode::kFailed);
}

TEST_CASE("CallError: the daemon's reason and words are kept, its escapes are not", "[ctl]") {
  v1::Fault fault;
  fault.set_reason(v1::REASON_NO_ROOM);
  v1::StatusDetails details;
  details.add_details()->PackFrom(fault);
  const Error error = CallError(
      grpc::Status(grpc::RESOURCE_EXHAUSTED, "all\033 leased", details.SerializeAsString()), "pin");
  CHECK(error.code == ErrorCode::kExhausted);
  CHECK(error.reason == Reason::kNoRoom);
  CHECK(error.message == "pin: all? leased [NO_ROOM]");
}

TEST_CASE("CallError: a status without details, or with other bytes there, has no reason",
          "[ctl]") {
  CHECK(CallError(grpc::Status(grpc::UNAVAILABLE, "gone"), "x").reason == Reason::kUnspecified);
  const Error garbage = CallError(grpc::Status(grpc::NOT_FOUND, "what", "\xFF\xFF\xFF"), "x");
  CHECK(garbage.code == ErrorCode::kNotFound);
  CHECK(garbage.reason == Reason::kUnspecified);
}

TEST_CASE("ConnectToDaemon: no socket, and a file that is none, are told apart", "[ctl]") {
  const auto missing = ConnectToDaemon("/nonexistent/moetierd.sock");
  REQUIRE(!missing.has_value());
  CHECK(ExitCodeOf(missing.error()) == ExitCode::kUnreachable);
  CHECK(missing.error().message ==
        "no daemon answers on /nonexistent/moetierd.sock (No such file or directory); start "
        "moetierd, or name its socket with --socket or MOETIER_SOCKET");
  CHECK(ConnectToDaemon("/").error().message.find("it is no socket") != std::string::npos);
}

TEST_CASE("FingerprintText: always sixteen digits", "[ctl]") {
  CHECK(FingerprintText(0xAB) == "00000000000000ab");
}

TEST_CASE("ConnectToDaemon: a socket of others is not taken for a daemon that is not there",
          "[ctl]") {
  const testing::TempFolder folder;
  const std::string path = folder.File("moetierd.sock");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM, 0));
  REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::chmod(path.c_str(), 0) == 0);
  // The folder that may be searched, and the one that may not.
  for (const mode_t mode : {0755u, 0u}) {
    REQUIRE(::chmod(folder.path().c_str(), mode) == 0);
    const testing::AsNobody nobody;
    const auto refused = ConnectToDaemon(path);
    REQUIRE(!refused.has_value());
    CHECK(refused.error().code == ErrorCode::kPermissionDenied);
    CHECK(refused.error().message == "you may not use " + path +
                                         ": be root, or join its group: `sudo usermod -aG moetier "
                                         "$USER`, then log in again");
  }
  REQUIRE(::chmod(folder.path().c_str(), 0700) == 0);
}

}  // namespace moetier
