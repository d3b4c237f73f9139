#include "daemon/ctl/command.h"

#include <catch2/catch.hpp>

#include "daemon/ctl/daemon_channel.h"
#include "moetier/v1/common.pb.h"

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

}  // namespace moetier
