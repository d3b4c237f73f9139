#ifndef MOETIER_DAEMON_RPC_RPC_DOOR_H_
#define MOETIER_DAEMON_RPC_RPC_DOOR_H_

#include <grpcpp/security/server_credentials.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "daemon/rpc/tcp_credentials.h"
#include "daemon/rpc/tcp_listener.h"
#include "daemon/transport/unix_listener.h"

namespace moetier {

// The sockets that an RpcServer serves on, bound, and the credentials that TCP asks for. Opened
// before the models are loaded: what cannot be served on is known at once, and nobody else can take
// the path or the port meanwhile. Clients are refused until Listen.
struct RpcDoor {
  struct Options {
    UnixSocketOptions socket;
    std::optional<TcpOptions> tcp;
  };

  // Errors name the socket, file or address and what to change.
  static Result<RpcDoor> Open(const Options& options);
  Status Listen();

  // What operators should know by now of the certificate; none without TCP.
  [[nodiscard]] std::optional<std::string> Warning() const;

  UnixListener unix_socket;
  TcpListener tcp;                            // no sockets without TCP
  std::optional<TcpCredentials> credentials;  // TCP's
  std::string certificate_path;               // likewise
};

// Whether a gRPC server greets who connects to the socket at `path`, which it does of itself.
bool GreetsClients(const std::string& path, std::chrono::milliseconds patience);

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_RPC_DOOR_H_
