#ifndef MOETIER_DAEMON_RPC_TCP_CREDENTIALS_H_
#define MOETIER_DAEMON_RPC_TCP_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "daemon/rpc/tls_files.h"

namespace moetier {

// A TCP listener is offered only with TLS and a token; all fields are set.
struct TcpOptions {
  std::string address;          // host:port; port 0 takes a free one
  std::string tls_certificate;  // PEM file, chain included
  std::string tls_key;          // PEM file, readable by its owner only
  std::string token_file;       // one line of at least kMinTokenBytes, readable by its owner only
};

inline constexpr size_t kMinTokenBytes = 32;  // 128 bits as hex digits

// True for the metadata value "Bearer TOKEN"; takes equally long wherever they differ.
bool BearerMatches(std::string_view authorization, std::string_view token);

struct TcpCredentials {
  std::shared_ptr<grpc::ServerCredentials> credentials;
  CertificateDates dates;
};

// TLS credentials whose calls all need `authorization: Bearer TOKEN`, health and reflection
// included; others get PERMISSION_DENIED before a handler sees them. Errors: kInvalidArgument,
// kBadConfig for a missing setting, a short token, a key file that others may read, or a key and a
// certificate that cannot serve; the file's own error otherwise.
Result<TcpCredentials> MakeTcpCredentials(const TcpOptions& options);

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_TCP_CREDENTIALS_H_
