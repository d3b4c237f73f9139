#include "daemon/rpc/tcp_listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

namespace moetier {
namespace {

constexpr int kBacklog = 128;

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Error BadAddress(const std::string& address, const std::string& why) {
  return {
      ErrorCode::kInvalidArgument, Reason::kBadConfig,
      fmt::format("tcp.address {}: {}; write host:port or [v6]:port of this host", address, why)};
}

Result<AddressList> Resolve(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return BadAddress(address, "it has no port");
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), address.c_str() + colon + 1,
                                &hints, &found);
  if (error != 0) return BadAddress(address, gai_strerror(error));
  return AddressList(found, &freeaddrinfo);
}

void SetPort(sockaddr_storage& address, int port) {
  if (address.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(static_cast<uint16_t>(port));
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(static_cast<uint16_t>(port));
  }
}

int PortOf(int socket) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &length) != 0) return 0;
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

bool IsWildcard(const addrinfo& entry) {
  const auto* address = reinterpret_cast<const sockaddr_in6*>(entry.ai_addr);
  return entry.ai_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&address->sin6_addr);
}

// On `port` if that is not 0. kNotFound when the address is not this host's.
Result<UniqueFd> BindOne(const addrinfo& entry, int port, const std::string& what) {
  UniqueFd socket(::socket(entry.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) {
    Error error = ErrnoError(errno, what);
    if (errno == EAFNOSUPPORT) error.code = ErrorCode::kNotFound;
    return error;
  }
  const int on = 1;  // a restart does not wait for connections of the daemon before
  (void)setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (entry.ai_family == AF_INET6) {
    const int v6_only = IsWildcard(entry) ? 0 : 1;  // [::] serves IPv4 too
    (void)setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
  }
  sockaddr_storage address{};
  std::memcpy(&address, entry.ai_addr, entry.ai_addrlen);
  if (port != 0) SetPort(address, port);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), entry.ai_addrlen) != 0) {
    const bool foreign = errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT;
    Error error = ErrnoError(errno, what);
    if (foreign) error.code = ErrorCode::kNotFound;
    return error;
  }
  return socket;
}

}  // namespace

Result<TcpListener> BindTcp(const std::string& address) {
  ASSIGN_OR_RETURN(const AddressList addresses, Resolve(address));
  const std::string what =
      fmt::format("bind tcp.address {} (`ss -tlp` names who has the port)", address);
  TcpListener listener;
  // A name may have an address of a family that this host does not use; one socket is enough.
  std::optional<Error> foreign;
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    Result<UniqueFd> socket = BindOne(*entry, listener.port, what);
    if (socket) {
      listener.port = PortOf(socket->get());
      listener.sockets.push_back(*std::move(socket));
    } else if (socket.error().code == ErrorCode::kNotFound) {
      foreign = std::move(socket).error();
    } else {
      return std::move(socket).error();
    }
  }
  if (listener.sockets.empty()) return BadAddress(address, foreign->message);
  return listener;
}

Status ListenOnTcp(const TcpListener& listener) {
  for (const UniqueFd& socket : listener.sockets) {
    if (listen(socket.get(), kBacklog) != 0) return ErrnoError(errno, "listen on tcp.address");
  }
  return Ok{};
}

}  // namespace moetier
