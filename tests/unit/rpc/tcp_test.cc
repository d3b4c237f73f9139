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

}  // namespace

TEST_CASE("TCP: a call over TLS needs the token; without TLS there is no call", "[rpc]") {
  const testing::TempFolder folder;
  const std::string key = folder.path() + "/key.pem";
  const std::string certificate = folder.path() + "/cert.pem";
  const std::string command =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
      "-subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout " +
      key + " -out " + certificate + " 2>/dev/null";
  REQUIRE(std::system(command.c_str()) == 0);
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
  const auto plain = grpc::CreateChannel(target, grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  v1::ListModelsReply reply;
  CHECK_FALSE(v1::Models::NewStub(plain)->List(&context, {}, &reply).ok());
}

}  // namespace moetier
