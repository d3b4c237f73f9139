#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/support/rpc_fixture.h"

namespace moetier {
namespace {

std::string ReadAll(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Adds a bearer token to every call.
class BearerToken final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit BearerToken(std::string token) : token_(std::move(token)) {}
  grpc::Status GetMetadata(grpc::string_ref /*service*/, grpc::string_ref /*method*/,
                           const grpc::AuthContext& /*channel*/,
                           std::multimap<std::string, std::string>* metadata) override {
    metadata->emplace("authorization", "Bearer " + token_);
    return grpc::Status::OK;
  }

 private:
  const std::string token_;
};

grpc::Status ListOver(const std::string& target, const std::string& certificate,
                      const std::string& token) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = certificate;
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::SslCredentials(tls);
  if (!token.empty()) {
    credentials = grpc::CompositeChannelCredentials(
        credentials, grpc::MetadataCredentialsFromPlugin(std::make_unique<BearerToken>(token)));
  }
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride("localhost");
  const auto channel = grpc::CreateCustomChannel(target, credentials, arguments);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  v1::ListModelsReply reply;
  return v1::Models::NewStub(channel)->List(&context, {}, &reply);
}

// A self-signed pair in the folder: NAME.key and NAME.cert, valid for `days`.
std::string MakePair(const testing::TempFolder& folder, const std::string& name, int days) {
  const std::string base = folder.path() + "/" + name;
  const std::string command = fmt::format(
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days {} "
      "-subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout {}.key -out {}.cert "
      "2>/dev/null",
      days, base, base);
  REQUIRE(std::system(command.c_str()) == 0);
  return base;
}

}  // namespace

TEST_CASE("TLS files: a pair that cannot serve is refused by file and key", "[rpc]") {
  const testing::TempFolder folder;
  const std::string one = MakePair(folder, "one", 90);
  const std::string two = MakePair(folder, "two", 90);
  const std::string certificate = ReadAll(one + ".cert");
  const std::string key = ReadAll(one + ".key");
  const auto refused = [](const std::string& cert_text, const std::string& key_text) {
    const auto checked = CheckTlsPair(cert_text, "/tls/cert", key_text, "/tls/key");
    REQUIRE_FALSE(checked.has_value());
    CHECK(checked.error().reason == Reason::kBadConfig);
    return checked.error().message;
  };
  const auto good = CheckTlsPair(certificate, "/tls/cert", key, "/tls/key");
  REQUIRE(good.has_value());
  CHECK(good->end - good->begin == std::chrono::hours(90 * 24));
  CHECK(refused(certificate, ReadAll(two + ".key")).find("tcp.tls_key /tls/key: it is not") == 0);
  CHECK(refused(key, certificate).find("tcp.tls_certificate /tls/cert") == 0);
  CHECK(refused(key, certificate).find("swapped") != std::string::npos);
  CHECK(refused("junk", key).find("tcp.tls_certificate /tls/cert") == 0);
  CHECK(refused(certificate, "junk").find("tcp.tls_key /tls/key") == 0);
}

TEST_CASE("TLS files: an expired certificate and one that soon will be are warned of", "[rpc]") {
  const auto now = std::chrono::system_clock::now();
  const auto days = [](int count) { return std::chrono::hours(24 * count); };
  const auto warning = [&](int begin, int end) {
    return CertificateWarning({.begin = now + days(begin), .end = now + days(end)}, "/c", now)
        .value_or("");
  };
  CHECK(warning(-1, 15).empty());
  CHECK(warning(-1, 14).find("expires at") != std::string::npos);
  CHECK(warning(-9, -1).find("expired at") != std::string::npos);
  CHECK(warning(1, 90).find("not valid before") != std::string::npos);
}

TEST_CASE("TCP: a call over TLS needs the token; without TLS there is no call", "[rpc]") {
  const testing::TempFolder folder;
  const std::string base = MakePair(folder, "pair", 2);
  const std::string key = base + ".key";
  const std::string certificate = base + ".cert";
  REQUIRE(chmod(key.c_str(), 0600) == 0);
  const std::string token(40, 't');
  const std::string token_file = folder.path() + "/token";
  std::ofstream(token_file) << token << "\n";
  REQUIRE(chmod(token_file.c_str(), 0600) == 0);

  RpcDoor::Options door;
  door.tcp = TcpOptions{.address = "127.0.0.1:0",
                        .tls_certificate = certificate,
                        .tls_key = key,
                        .token_file = token_file};
  RpcFixture fixture(RpcFixture::DefaultOptions(), door);
  const std::string target = fmt::format("ipv4:127.0.0.1:{}", fixture.server->tcp_port());
  const std::string root = ReadAll(certificate);
  CHECK(ListOver(target, root, token).ok());
  CHECK(ListOver(target, root, "").error_code() == grpc::StatusCode::PERMISSION_DENIED);
  CHECK(ListOver(target, root, token + "x").error_code() == grpc::StatusCode::PERMISSION_DENIED);
  grpc::ClientContext status_context;
  v1::StatusReply status;
  REQUIRE(v1::Operator::NewStub(fixture.Connect())->GetStatus(&status_context, {}, &status).ok());
  REQUIRE(status.warnings_size() == 1);  // it ends in two days
  CHECK(status.warnings(0).find(certificate) != std::string::npos);
  const auto plain = grpc::CreateChannel(target, grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  v1::ListModelsReply reply;
  CHECK_FALSE(v1::Models::NewStub(plain)->List(&context, {}, &reply).ok());
}

}  // namespace moetier
