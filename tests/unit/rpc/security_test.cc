#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "daemon/rpc/state_lock.h"
#include "daemon/rpc/tcp_credentials.h"
#include "daemon/rpc/tcp_listener.h"
#include "daemon/transport/unix_listener.h"
#include "daemon/transport/wire_text.h"
#include "tests/support/rpc_fixture.h"

namespace moetier {
namespace {

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  REQUIRE(lstat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

std::string WriteFile(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream(path) << text;
  REQUIRE(chmod(path.c_str(), mode) == 0);
  return path;
}

}  // namespace

TEST_CASE("Unix socket: the server makes its directory 0700 and its socket 0600", "[rpc]") {
  const ScopedUmask careless(0);
  RpcFixture fixture;
  CHECK(ModeOf(fixture.folder.path() + "/run") == 0700);
  CHECK(ModeOf(fixture.socket_path) == 0600);
}

TEST_CASE("Unix socket: the configured mode and group are given after the bind", "[rpc]") {
  RpcFixture fixture(RpcFixture::DefaultOptions(),
                     {.socket = {.path = {}, .mode = 0660, .group = {}}, .tcp = {}});
  CHECK(ModeOf(fixture.socket_path) == 0660);
}

TEST_CASE("Unix socket: Stop removes the socket file", "[rpc]") {
  RpcFixture fixture;
  CHECK(std::filesystem::exists(fixture.socket_path));
  CHECK(fixture.server->Stop(std::chrono::seconds(1)));
  CHECK_FALSE(std::filesystem::exists(fixture.socket_path));
}

TEST_CASE("RpcServer: what the core could not end is told, and nothing more is waited for",
          "[rpc]") {
  RpcFixture fixture;
  AttachedClient client(fixture.Connect());
  const Error held_up{ErrorCode::kUnavailable, Reason::kDraining, "a copy has not ended"};
  fixture.core.FailDrain(held_up);
  const Status stopped = fixture.server->Stop(std::chrono::seconds(10));
  REQUIRE(!stopped);
  CHECK(stopped.error().message == "a copy has not ended");
  CHECK(ReasonOf(client.Finish()) == v1::REASON_DRAINING);
  fixture.core.FailDrain({});
  CHECK(fixture.server->Stop(std::chrono::seconds(1)));
  CHECK_FALSE(std::filesystem::exists(fixture.socket_path));
}

TEST_CASE("Unix socket: a directory that others may write is refused", "[rpc]") {
  const testing::TempFolder folder;
  REQUIRE(chmod(folder.path().c_str(), 0777) == 0);
  const auto prepared =
      UnixListener::Bind({.path = folder.path() + "/s", .group = ""}, SOCK_STREAM);
  REQUIRE_FALSE(prepared.has_value());
  CHECK(prepared.error().code == ErrorCode::kPermissionDenied);
  CHECK(prepared.error().message.find("mode 0777") != std::string::npos);
}

TEST_CASE("Unix socket: a file that is no socket is left alone and refused", "[rpc]") {
  const testing::TempFolder folder;
  const std::string path = WriteFile(folder.path() + "/s", "precious", 0600);
  CHECK_FALSE(UnixListener::Bind({.path = path, .group = ""}, SOCK_STREAM).has_value());
  CHECK(std::filesystem::exists(path));
}

TEST_CASE("Unix socket: a socket left behind is replaced", "[rpc]") {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/s";
  REQUIRE(mknod(path.c_str(), S_IFSOCK | 0600, 0) == 0);
  CHECK(UnixListener::Bind({.path = path, .group = ""}, SOCK_STREAM).has_value());
  CHECK_FALSE(std::filesystem::exists(path));  // and given back
}

TEST_CASE("Unix socket: a path whose daemon lives is refused with its pid", "[rpc]") {
  const testing::TempFolder folder;
  const UnixSocketOptions options{.path = folder.path() + "/s", .group = ""};
  const auto first = UnixListener::Bind(options, SOCK_STREAM);
  REQUIRE(first.has_value());
  const auto second = UnixListener::Bind(options, SOCK_STREAM);  // before the first one listens
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().reason == Reason::kAlreadyRunning);
  CHECK(second.error().message.find(fmt::format("pid {}", getpid())) != std::string::npos);
  CHECK(std::filesystem::exists(options.path));
}

TEST_CASE("Unix socket: one that a stranger listens on is refused, whatever its kind", "[rpc]") {
  const testing::TempFolder folder;
  const UnixSocketOptions options{.path = folder.path() + "/s", .group = ""};
  const sockaddr_un address = UnixAddress(options.path);
  const int kind = GENERATE(SOCK_STREAM, SOCK_SEQPACKET);
  const UniqueFd stranger(::socket(AF_UNIX, kind, 0));
  REQUIRE(bind(stranger.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(listen(stranger.get(), 0) == 0);
  const auto refused = UnixListener::Bind(options, SOCK_STREAM);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().reason == Reason::kAlreadyRunning);
  CHECK(std::filesystem::exists(options.path));
}

TEST_CASE("Unix socket: what stands at the path in its place is left alone at the end", "[rpc]") {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/s";
  {
    const auto listener = UnixListener::Bind({.path = path, .group = ""}, SOCK_STREAM);
    REQUIRE(listener.has_value());
    REQUIRE(unlink(path.c_str()) == 0);
    WriteFile(path, "another's", 0600);
  }
  CHECK(std::filesystem::exists(path));
}

TEST_CASE("Unix socket: a relative or overlong path and an unknown group are refused", "[rpc]") {
  const testing::TempFolder folder;
  const auto refusal = [](const UnixSocketOptions& options) {
    const auto bound = UnixListener::Bind(options, SOCK_STREAM);
    REQUIRE_FALSE(bound.has_value());
    return bound.error();
  };
  CHECK(refusal({.path = "s", .group = ""}).reason == Reason::kBadConfig);
  CHECK(refusal({.path = "/" + std::string(108, 'x'), .group = ""}).reason == Reason::kBadConfig);
  const std::string path = folder.path() + "/s";
  CHECK(refusal({.path = path, .group = "no-such-group-here"}).code == ErrorCode::kNotFound);
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("Watchdog: a server that accepts answers, one that does not is noticed", "[rpc]") {
  RpcFixture fixture;
  CHECK(fixture.server->Answers(std::chrono::seconds(10)));
  const std::string silent = fixture.folder.path() + "/silent";
  auto listener = UnixListener::Bind({.path = silent, .group = ""}, SOCK_STREAM);
  REQUIRE(listener.has_value());
  REQUIRE(listener->Listen().has_value());
  CHECK_FALSE(GreetsClients(silent, std::chrono::milliseconds(20)));
}

TEST_CASE("State lock: a second owner is refused with the first one's pid", "[rpc]") {
  const testing::TempFolder folder;
  const std::string directory = folder.path() + "/a/state";
  {
    const Result<StateLock> first = StateLock::Take(directory);
    REQUIRE(first.has_value());
    CHECK(ModeOf(directory) == 0700);
    const Result<StateLock> second = StateLock::Take(directory);  // flock holds a file, not a pid
    REQUIRE_FALSE(second.has_value());
    CHECK(second.error().reason == Reason::kAlreadyRunning);
    CHECK(second.error().message.find(fmt::format("pid {}", getpid())) != std::string::npos);
  }
  CHECK(StateLock::Take(directory).has_value());
}

TEST_CASE("TCP: a listener without all of address, certificate, key and token is refused",
          "[rpc]") {
  const TcpOptions whole{
      .address = "127.0.0.1:0", .tls_certificate = "/c", .tls_key = "/k", .token_file = "/t"};
  for (std::string TcpOptions::*field : {&TcpOptions::address, &TcpOptions::tls_certificate,
                                         &TcpOptions::tls_key, &TcpOptions::token_file}) {
    TcpOptions options = whole;
    (options.*field).clear();
    const auto credentials = MakeTcpCredentials(options);
    REQUIRE_FALSE(credentials.has_value());
    CHECK(credentials.error().reason == Reason::kBadConfig);
  }
}

TEST_CASE("TCP: a short token, one that others may read and a binary one are refused", "[rpc]") {
  const testing::TempFolder folder;
  const std::string good(32, 'a');
  const auto refused = [&](const std::string& token, mode_t mode) {
    const std::string path = WriteFile(folder.path() + "/token", token, mode);
    const auto credentials = MakeTcpCredentials(
        {.address = "127.0.0.1:0", .tls_certificate = "/c", .tls_key = "/k", .token_file = path});
    REQUIRE_FALSE(credentials.has_value());
    return credentials.error().message;
  };
  CHECK(refused(good.substr(1), 0600).find("31 bytes") != std::string::npos);
  CHECK(refused(good, 0644).find("mode 0644") != std::string::npos);
  CHECK(refused(good + "\nmore", 0600).find("one line") != std::string::npos);
  CHECK(refused(good + "\n", 0600).find("/k") != std::string::npos);  // the token passes
}

TEST_CASE("TCP: a door with a bad listener is refused and leaves no socket behind", "[rpc]") {
  const testing::TempFolder folder;
  RpcDoor::Options options;
  options.socket.path = folder.path() + "/s";
  options.tcp.emplace();
  options.tcp->address = "127.0.0.1:0";
  const auto door = RpcDoor::Open(options);
  REQUIRE_FALSE(door.has_value());
  CHECK(door.error().reason == Reason::kBadConfig);
  CHECK_FALSE(std::filesystem::exists(options.socket.path));
}

TEST_CASE("TCP: a port in use and an address that is not this host's are told apart", "[rpc]") {
  const auto first = BindTcp("127.0.0.1:0");
  REQUIRE(first.has_value());
  REQUIRE(ListenOnTcp(*first).has_value());
  const auto second = BindTcp(fmt::format("127.0.0.1:{}", first->port));
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().reason == Reason::kIo);
  CHECK(second.error().message.find("in use") != std::string::npos);
  CHECK(BindTcp("192.0.2.1:80").error().reason == Reason::kBadConfig);  // RFC 5737: nobody's
  CHECK(BindTcp("no such host:80").error().reason == Reason::kBadConfig);
}

TEST_CASE("TCP: only the whole token with its scheme matches", "[rpc]") {
  CHECK(BearerMatches("Bearer secret", "secret"));
  CHECK_FALSE(BearerMatches("Bearer secres", "secret"));
  CHECK_FALSE(BearerMatches("Bearer secret1", "secret"));
  CHECK_FALSE(BearerMatches("Bearer ", "secret"));
  CHECK_FALSE(BearerMatches("bearer secret", "secret"));
  CHECK_FALSE(BearerMatches("secret", "secret"));
  CHECK_FALSE(BearerMatches("", "secret"));
}

TEST_CASE("Wire text: what is not UTF-8 becomes '?', the rest stays", "[rpc]") {
  CHECK(WireText("plain") == "plain");
  CHECK(WireText("\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80") ==
        "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80");
  CHECK(WireText("\xFFx") == "?x");
  CHECK(WireText("\xC3") == "?");
  CHECK(WireText("\xC0\x80") == "??");            // overlong
  CHECK(WireText("\xED\xA0\x80") == "???");       // surrogate
  CHECK(WireText("\xF4\x90\x80\x80") == "????");  // beyond U+10FFFF
  CHECK(WireText("\xE0\x80\x80") == "???");
  CHECK(WireText("\xF0\x80\x80\x80") == "????");
  CHECK(WireText("\xE2\x82") == "??");
  CHECK(WireText(std::string(kMaxWireText - 1, 'x') + "\xC3\xA4").size() == kMaxWireText - 1);
}

TEST_CASE("Wire text: constant-time equality is equality", "[rpc]") {
  CHECK(EqualInConstantTime("", ""));
  CHECK(EqualInConstantTime("abc", "abc"));
  CHECK_FALSE(EqualInConstantTime("abc", "abd"));
  CHECK_FALSE(EqualInConstantTime("abc", "ab"));
}

}  // namespace moetier
