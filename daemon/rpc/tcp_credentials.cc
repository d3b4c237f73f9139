#include "daemon/rpc/tcp_credentials.h"

#include <grpcpp/security/auth_metadata_processor.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "base/bytes.h"
#include "base/file_io.h"
#include "base/unique_fd.h"
#include "daemon/rpc/status_map.h"
#include "daemon/transport/wire_text.h"

namespace moetier {
namespace {

constexpr Bytes kMaxPem = 1_MiB;
constexpr std::string_view kAuthorization = "authorization";
constexpr std::string_view kBearer = "Bearer ";

Error BadConfig(std::string message) {
  return {ErrorCode::kInvalidArgument, Reason::kBadConfig, std::move(message)};
}

// Only gRPC's interface; the check itself is BearerMatches.
class TokenCheck final : public grpc::AuthMetadataProcessor {
 public:
  explicit TokenCheck(std::string token) : token_(std::move(token)) {}
  [[nodiscard]] bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* /*context*/,
                       OutputMetadata* consumed, OutputMetadata* /*response*/) override {
    const auto found =
        metadata.find(grpc::string_ref(kAuthorization.data(), kAuthorization.size()));
    if (found == metadata.end() ||
        !BearerMatches({found->second.data(), found->second.size()}, token_)) {
      return ToGrpcStatus({ErrorCode::kPermissionDenied, Reason::kUnspecified,
                           "send the daemon's token as metadata `authorization: Bearer TOKEN`"});
    }
    consumed->emplace(kAuthorization, std::string(found->second.data(), found->second.size()));
    return grpc::Status::OK;
  }

 private:
  const std::string token_;
};

Result<std::string> ReadSecret(const std::string& path, const char* key) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return ErrnoError(errno, fmt::format("{} {}", key, path));
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return BadConfig(fmt::format("{} {} has mode {:04o}: others may use it; chmod 600 it", key,
                                 path, info.st_mode & 07777));
  }
  return ReadTextFile(path, kMaxPem);
}

Result<std::string> ReadToken(const std::string& path) {
  ASSIGN_OR_RETURN(std::string token, ReadSecret(path, "tcp.token_file"));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (token.size() < kMinTokenBytes) {
    return BadConfig(
        fmt::format("tcp.token_file {}: a token of {} bytes; at least {} are needed "
                    "(openssl rand -hex 32)",
                    path, token.size(), kMinTokenBytes));
  }
  for (const char c : token) {
    if (c <= ' ' || c > '~') {
      return BadConfig(fmt::format(
          "tcp.token_file {}: must be one line of printable ASCII without spaces", path));
    }
  }
  return token;
}

}  // namespace

bool BearerMatches(std::string_view authorization, std::string_view token) {
  if (authorization.substr(0, kBearer.size()) != kBearer) return false;
  return EqualInConstantTime(authorization.substr(kBearer.size()), token);
}

Result<TcpCredentials> MakeTcpCredentials(const TcpOptions& options) {
  if (options.address.empty() || options.tls_certificate.empty() || options.tls_key.empty() ||
      options.token_file.empty()) {
    return BadConfig(
        "tcp: address, tls_certificate, tls_key and token_file must all be set; without TLS and a "
        "token the daemon listens on its Unix socket only");
  }
  ASSIGN_OR_RETURN(std::string token, ReadToken(options.token_file));
  ASSIGN_OR_RETURN(std::string key, ReadSecret(options.tls_key, "tcp.tls_key"));
  ASSIGN_OR_RETURN(std::string certificate, ReadTextFile(options.tls_certificate, kMaxPem));
  ASSIGN_OR_RETURN(const CertificateDates dates,
                   CheckTlsPair(certificate, options.tls_certificate, key, options.tls_key));
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back({std::move(key), std::move(certificate)});
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::SslServerCredentials(tls);
  credentials->SetAuthMetadataProcessor(std::make_shared<TokenCheck>(std::move(token)));
  return TcpCredentials{.credentials = std::move(credentials), .dates = dates};
}

}  // namespace moetier
