#ifndef MOETIER_DAEMON_RPC_TCP_LISTENER_H_
#define MOETIER_DAEMON_RPC_TCP_LISTENER_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace moetier {

struct TcpListener {
  std::vector<UniqueFd> sockets;  // bound, non-blocking; one an address that the host's name has
  int port = 0;
};

// Binds "host:port" or "[v6]:port"; port 0 takes a free one. Two daemons never share a port.
// kBadConfig for an address that cannot be read or is not this host's, kUnavailable when another
// process has it.
Result<TcpListener> BindTcp(const std::string& address);

// Lets connections wait on all of them.
Status ListenOnTcp(const TcpListener& listener);

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_TCP_LISTENER_H_
