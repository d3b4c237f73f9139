#include "daemon/ctl/daemon_channel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/open_files.h"
#include "base/unique_fd.h"
#include "daemon/ctl/text_table.h"
#include "moetier/v1/common.pb.h"

namespace moetier {
namespace {

constexpr std::chrono::seconds kConnectTimeout{2};
constexpr int kMaxMessageBytes = 1 << 30;  // the most that a daemon's limits allow

Error NoDaemon(const std::string& socket_path, const std::string& why) {
  return Error{ErrorCode::kUnavailable, Reason::kUnspecified,
               fmt::format("no daemon answers on {} ({}); start moetierd, or name its socket with "
                           "--socket or MOETIER_SOCKET",
                           socket_path, why)};
}

Error NotAllowed(const std::string& socket_path) {
  return Error{ErrorCode::kPermissionDenied, Reason::kUnspecified,
               fmt::format("you may not use {}: be root, or join its group: `sudo usermod -aG "
                           "moetier $USER`, then log in again",
                           socket_path)};
}

ErrorCode CodeOf(grpc::StatusCode code) {
  switch (code) {
    case grpc::INVALID_ARGUMENT:
      return ErrorCode::kInvalidArgument;
    case grpc::NOT_FOUND:
      return ErrorCode::kNotFound;
    case grpc::ALREADY_EXISTS:
      return ErrorCode::kAlreadyExists;
    case grpc::FAILED_PRECONDITION:
      return ErrorCode::kFailedPrecondition;
    case grpc::RESOURCE_EXHAUSTED:
      return ErrorCode::kExhausted;
    case grpc::DATA_LOSS:
      return ErrorCode::kDataLoss;
    case grpc::UNAVAILABLE:
      return ErrorCode::kUnavailable;
    case grpc::DEADLINE_EXCEEDED:
      return ErrorCode::kDeadlineExceeded;
    case grpc::CANCELLED:
      return ErrorCode::kUnavailable;  // moetierctl cancels nothing that it waits for
    case grpc::PERMISSION_DENIED:
      return ErrorCode::kPermissionDenied;
    case grpc::UNIMPLEMENTED:
      return ErrorCode::kUnimplemented;
    default:
      return ErrorCode::kInternal;
  }
}

// A process holds the socket: starting another daemon would not help.
Error Silent(const std::string& socket_path) {
  return Error{
      ErrorCode::kUnavailable, Reason::kUnspecified,
      fmt::format("a process holds {} and does not answer within {} s; `ss -xlp` names it: "
                  "its log says why, or it is no moetierd and --socket or MOETIER_SOCKET "
                  "must name another",
                  socket_path, kConnectTimeout.count())};
}

// Whether the kernel refuses connections: the file is bound by nobody, or by a daemon that starts.
bool IsRefused(const std::string& socket_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) return false;  // gRPC says so
  std::memcpy(address.sun_path, socket_path.c_str(), socket_path.size() + 1);
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
         errno == ECONNREFUSED;
}

}  // namespace

Result<std::shared_ptr<grpc::Channel>> ConnectToDaemon(const std::string& socket_path) {
  // Short of descriptors, gRPC aborts.
  constexpr uint64_t kOpenFiles = 64;  // a dozen are in use at once
  RETURN_IF_ERROR(RaiseOpenFileLimit(kOpenFiles));
  struct stat status = {};
  if (::stat(socket_path.c_str(), &status) != 0) {
    if (errno == EACCES) return NotAllowed(socket_path);
    return NoDaemon(socket_path, std::strerror(errno));
  }
  if (!S_ISSOCK(status.st_mode)) return NoDaemon(socket_path, "it is no socket");
  // gRPC would try for the whole of the timeout, and not say why.
  if (::faccessat(AT_FDCWD, socket_path.c_str(), W_OK, AT_EACCESS) != 0 && errno == EACCES) {
    return NotAllowed(socket_path);
  }
  if (IsRefused(socket_path)) {
    return NoDaemon(socket_path,
                    "nobody serves there yet or any more: a daemon that starts loads "
                    "its models first");
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // Channels to one address share a connection unless they have pools of their own.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::shared_ptr<grpc::Channel> channel = grpc::CreateCustomChannel(
      "unix:" + socket_path, grpc::InsecureChannelCredentials(), arguments);
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + kConnectTimeout)) {
    return Silent(socket_path);
  }
  return channel;
}

Error CallError(const grpc::Status& status, const std::string& what) {
  Error error{CodeOf(status.error_code()), Reason::kUnspecified,
              fmt::format("{}: {}", what, WithoutControls(status.error_message()))};
  v1::StatusDetails details;
  v1::Fault fault;
  const bool has_fault = details.ParseFromString(status.error_details()) &&
                         details.details_size() > 0 && details.details(0).UnpackTo(&fault);
  if (has_fault && v1::Reason_IsValid(fault.reason())) {
    error.reason = static_cast<Reason>(fault.reason());
    error.message += fmt::format(" [{}]", ReasonName(error.reason));
  }
  return error;
}

}  // namespace moetier
