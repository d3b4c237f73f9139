#include "daemon/rpc/rpc_door.h"

#include <poll.h>
#include <sys/socket.h>

#include <utility>

namespace moetier {

Result<RpcDoor> RpcDoor::Open(const Options& options) {
  std::optional<TcpCredentials> credentials;
  TcpListener tcp;
  if (options.tcp) {
    ASSIGN_OR_RETURN(TcpCredentials made, MakeTcpCredentials(*options.tcp));
    credentials = std::move(made);
    ASSIGN_OR_RETURN(tcp, BindTcp(options.tcp->address));
  }
  ASSIGN_OR_RETURN(UnixListener unix_socket, UnixListener::Bind(options.socket, SOCK_STREAM));
  return RpcDoor{.unix_socket = std::move(unix_socket),
                 .tcp = std::move(tcp),
                 .credentials = std::move(credentials),
                 .certificate_path = options.tcp ? options.tcp->tls_certificate : ""};
}

std::optional<std::string> RpcDoor::Warning() const {
  if (!credentials) return std::nullopt;
  return CertificateWarning(credentials->dates, certificate_path, std::chrono::system_clock::now());
}

Status RpcDoor::Listen() {
  RETURN_IF_ERROR(ListenOnTcp(tcp));
  return unix_socket.Listen();
}

bool GreetsClients(const std::string& path, std::chrono::milliseconds patience) {
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = UnixAddress(path);
  if (!socket ||
      connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return false;
  }
  pollfd watched{.fd = socket.get(), .events = POLLIN, .revents = 0};
  char greeting = 0;  // the first byte of HTTP/2's SETTINGS
  return poll(&watched, 1, static_cast<int>(patience.count())) == 1 &&
         recv(socket.get(), &greeting, 1, MSG_DONTWAIT) == 1;
}

}  // namespace moetier
