#include "daemon/fastlane/handshake.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <future>
#include <optional>

#include "base/text_size.h"
#include "base/unique_fd.h"
#include "daemon/scheduling/daemon_core.h"
#include "tests/support/as_nobody.h"
#include "tests/support/lane_fixture.h"
#include "tests/support/raw_lane.h"

namespace moetier::testing {
namespace {

struct Refusal {
  uint32_t code = 0;
  uint32_t reason = 0;
  std::string text;
};

Refusal RefusalOf(RawLane& lane) {
  const std::optional<moetier_wire_refuse> refuse = lane.ReadRefusal();
  if (!refuse) return {};
  return {.code = refuse->code, .reason = refuse->reason, .text = refuse->text};
}

Refusal Refused(const LaneFixture& fixture, const moetier_wire_hello& hello,
                std::span<const int> files = {}) {
  RawLane lane(fixture.socket_path);
  REQUIRE(lane.Send(hello, files));
  return RefusalOf(lane);
}

constexpr uint32_t kInvalidArgument = 3;
constexpr uint32_t kNotFound = 5;
constexpr uint32_t kExhausted = 8;
constexpr uint32_t kUnimplemented = 12;
constexpr uint32_t kUnavailable = 14;

uint32_t Number(Reason reason) { return static_cast<uint32_t>(reason); }

bool AttachesSoon(const LaneFixture& fixture) {
  for (int i = 0; i < 1000; ++i) {
    if (Lane(fixture).status == MOETIER_OK) return true;
    usleep(10'000);
  }
  return false;
}

}  // namespace

TEST_CASE("Fast lane: a HELLO that is none is refused with what is wrong", "[fastlane]") {
  const LaneFixture fixture;
  moetier_wire_hello hello = RawLane::GoodHello();
  hello.head.magic = 7;
  CHECK(Refused(fixture, hello).text == "the first message is neither HELLO nor MAP nor MAP_SLOT");
  hello = RawLane::GoodHello();
  hello.head.kind = MOETIER_WIRE_GRANT;
  CHECK(Refused(fixture, hello).reason == Number(Reason::kBadType));
  hello = RawLane::GoodHello();
  hello.head.major = 2;
  CHECK(Refused(fixture, hello).text ==
        "HELLO: version 2.3; this daemon speaks 1.3: update the older of daemon and client");
  hello = RawLane::GoodHello();
  hello.head.size = 9;
  const Refusal shape = Refused(fixture, hello);
  CHECK(shape.code == kInvalidArgument);
  CHECK(shape.reason == Number(Reason::kBadShape));
  CHECK(shape.text == "HELLO: 176 bytes that say they are 9; version 1 has at least 176");
  hello = RawLane::GoodHello();
  hello.file_count = 65;
  CHECK(Refused(fixture, hello).reason == Number(Reason::kTooLarge));
  hello = RawLane::GoodHello();
  hello.file_count = 1;
  CHECK(Refused(fixture, hello).text == "HELLO: file_count = 1, and 0 descriptors came");
}

TEST_CASE("Fast lane: a message of any length that is no HELLO is refused or dropped",
          "[fastlane]") {
  const LaneFixture fixture;
  const std::vector<std::byte> garbage(70'000, std::byte{0xA5});
  for (const size_t length : {size_t{0}, size_t{1}, size_t{15}, size_t{16}, size_t{175},
                              size_t{176}, size_t{4096}, size_t{4097}, size_t{70'000}}) {
    INFO(length << " bytes");
    RawLane lane(fixture.socket_path);
    REQUIRE(lane.Send(std::span(garbage).first(length)));
    const Refusal refusal = RefusalOf(lane);
    if (length > 0) CHECK(refusal.code == kInvalidArgument);
    if (length == 15) CHECK(refusal.text == "the first message has 15 bytes, too few for its head");
    CHECK(lane.WaitForEnd());
  }
  const Lane good(fixture);
  CHECK(good.status == MOETIER_OK);
}

TEST_CASE("Fast lane: a HELLO that is longer than this version's is taken", "[fastlane]") {
  const LaneFixture fixture;
  std::array<std::byte, sizeof(moetier_wire_hello) + 64> longer{};
  moetier_wire_hello hello = RawLane::GoodHello();
  hello.head.size = longer.size();
  hello.head.minor = 9;
  std::memcpy(longer.data(), &hello, sizeof hello);
  RawLane lane(fixture.socket_path);
  REQUIRE(lane.Send(longer));
  CHECK(fixture.WaitForSessions(1));
}

TEST_CASE("Fast lane: the model is chosen by handle, then fingerprint, else the only one",
          "[fastlane]") {
  LaneFixture fixture;
  const uint64_t fingerprint = fixture.core->FindModel("demo")->fingerprint;
  moetier_attach attach{};
  attach.model = "demo";
  CHECK(Lane(fixture, attach).status == MOETIER_OK);
  attach = {};
  attach.fingerprint = fingerprint;
  CHECK(Lane(fixture, attach).status == MOETIER_OK);
  CHECK(Lane(fixture).status == MOETIER_OK);

  attach = {};
  attach.model = "other";
  const Lane other(fixture, attach);
  CHECK(other.status == MOETIER_REFUSED);
  CHECK(other.error.code == kNotFound);
  CHECK(other.error.reason == Number(Reason::kUnknownModel));
  CHECK(other.error.text == NotLoaded("other").message);
  attach = {};
  attach.fingerprint = 0x12;
  const Lane unknown(fixture, attach);
  CHECK(unknown.status == MOETIER_REFUSED);
  CHECK(unknown.error.text ==
        std::string("no model with the fingerprint 0000000000000012 is loaded"));
  REQUIRE(fixture.core->UnloadModel("demo").has_value());
  CHECK(Lane(fixture).error.text ==
        std::string("model is empty and 0 models are loaded; name one"));
  CHECK(fixture.counters.totals().faults.at(Reason::kUnknownModel) == 3);
}

TEST_CASE("Fast lane: a model is in use until its session ends, and no longer", "[fastlane]") {
  const LaneFixture fixture;
  {
    const Lane lane(fixture);
    REQUIRE(lane.status == MOETIER_OK);
    const Status refused = fixture.core->UnloadIfIdle("demo");
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().message == "model `demo` is in use");
  }
  REQUIRE(fixture.WaitForSessions(0));
  const Status unloaded = fixture.core->UnloadIfIdle("demo");  // its page may be mapped still
  INFO((unloaded ? "" : unloaded.error().message));
  CHECK(unloaded.has_value());
}

TEST_CASE("Fast lane: the grant says the model's activation, unknown if layers differ",
          "[fastlane]") {
  const LaneFixture fixture;
  const Lane lane(fixture);
  REQUIRE(lane.status == MOETIER_OK);
  ModelGeometry geometry = *fixture.core->FindModel("demo")->geometry;
  CHECK(lane.grant().activation == MOETIER_SWIGLU);
  CHECK(lane.grant().activation == WireActivation(geometry));
  REQUIRE(geometry.layers.size() > 1);
  geometry.layers[1].shape.activation = kernels::Activation::kGeGlu;
  CHECK(WireActivation(geometry) == MOETIER_WIRE_ACTIVATION_UNKNOWN);
  geometry.layers.erase(geometry.layers.begin() + 2, geometry.layers.end());
  geometry.layers.erase(geometry.layers.begin());
  CHECK(WireActivation(geometry) == MOETIER_WIRE_GEGLU);
  geometry.layers[0].shape.activation = kernels::Activation::kSwiGluClamped;
  CHECK(WireActivation(geometry) == MOETIER_WIRE_SWIGLU_CLAMPED);
  geometry.layers.clear();
  CHECK(WireActivation(geometry) == MOETIER_WIRE_ACTIVATION_UNKNOWN);
}

TEST_CASE("Fast lane: the memory of all sessions together is bounded", "[fastlane]") {
  LaneShape shape;
  {
    const LaneFixture unbounded;
    const Lane lane(unbounded);
    shape = {.slots = lane.grant().max_in_flight,
             .max_rows = lane.grant().max_rows,
             .max_top_k = lane.grant().max_top_k,
             .max_hidden = lane.grant().max_hidden};
  }
  const Bytes page(PlanLane(shape).page_bytes);
  REQUIRE(page > 64_KiB);
  FastLaneServer::Options options = LaneFixture::DefaultOptions();
  options.memory = page * 2 + 64_KiB;
  const LaneFixture fixture(options);
  std::optional<Lane> first(std::in_place, fixture);
  const Lane second(fixture);
  REQUIRE(first->status == MOETIER_OK);
  REQUIRE(second.status == MOETIER_OK);
  const Lane third(fixture);
  CHECK(third.status == MOETIER_REFUSED);
  CHECK(third.error.code == kExhausted);
  CHECK(third.error.reason == Number(Reason::kQuota));
  CHECK(third.error.text ==
        fmt::format("the session's memory would be {} (4 calls of 64 rows of {} values), {} of {} "
                    "are left beside 2 sessions: raise fastlane.memory, or lower fastlane.max_rows "
                    "or fastlane.max_in_flight",
                    FormatSize(page), shape.max_hidden, FormatSize(64_KiB),
                    FormatSize(options.memory)));
  moetier_attach little{};
  little.max_rows = 1;
  little.max_in_flight = 1;
  CHECK(Lane(fixture, little).status == MOETIER_OK);
  first.reset();
  CHECK(AttachesSoon(fixture));  // once the first's page is unmapped
}

TEST_CASE("Fast lane: files are for the resolver, which gets the client's own", "[fastlane]") {
  std::promise<void> asked;
  std::promise<void> go_on;
  std::shared_future<void> may_go_on(go_on.get_future());
  FastLaneServer::Options options = LaneFixture::DefaultOptions();
  LaneFixture* made = nullptr;
  options.resolve_files =
      [&](std::vector<UniqueFd> files,
          const std::function<bool()>& /*keep_going*/) -> Result<ResolvedFiles> {
    struct stat info {};
    if (files.size() != 1 || fstat(files[0].get(), &info) != 0 || info.st_size != 5) {
      return Error{ErrorCode::kInvalidArgument, Reason::kBadGguf, "not these"};
    }
    ResolvedFiles resolved;
    resolved.load = [&](const ProgressListener& /*listener*/) -> Result<ModelInfo> {
      asked.set_value();
      may_go_on.wait();
      return *made->core->HoldModel(made->core->FindModel("demo")->id);
    };
    return resolved;
  };
  LaneFixture fixture(options);
  made = &fixture;
  const std::string path = fixture.folder.File("model");
  const UniqueFd file = UniqueFd::Open(path, O_RDWR | O_CREAT).value();
  REQUIRE(write(file.get(), "12345", 5) == 5);
  const int number = file.get();
  moetier_attach attach{};
  attach.files = &number;
  attach.file_count = 1;
  auto slow = std::async(std::launch::async, [&] { return Lane(fixture, attach).status; });
  asked.get_future().wait();
  CHECK(Lane(fixture).status == MOETIER_OK);  // nobody waits for another's load
  go_on.set_value();
  CHECK(slow.get() == MOETIER_OK);
}

TEST_CASE("Fast lane: a resolver's refusal reaches the client, and none is NOT_YET", "[fastlane]") {
  const std::array<int, 1> files = {0};
  moetier_wire_hello hello = RawLane::GoodHello();
  hello.file_count = 1;
  FastLaneServer::Options options = LaneFixture::DefaultOptions();
  {
    const LaneFixture fixture(options);
    const Refusal refusal = Refused(fixture, hello, files);
    CHECK(refusal.code == kUnimplemented);
    CHECK(refusal.reason == Number(Reason::kNotYet));
  }
  options.resolve_files = [](const std::vector<UniqueFd>&, const std::function<bool()>&) {
    return Result<ResolvedFiles>(Error{ErrorCode::kInvalidArgument, Reason::kBadGguf, "no GGUF"});
  };
  const LaneFixture fixture(options);
  CHECK(Refused(fixture, hello, files).text == "no GGUF");
}

TEST_CASE("Fast lane: a client that leaves while its files are resolved stops the work",
          "[fastlane]") {
  std::promise<void> asked;
  std::promise<void> stopped;
  FastLaneServer::Options options = LaneFixture::DefaultOptions();
  const auto work = [&](const std::function<bool()>& keep_going) {
    asked.set_value();
    while (keep_going()) usleep(1000);
    stopped.set_value();
    return Error{ErrorCode::kCancelled, Reason::kCancelled, "gave up"};
  };
  SECTION("by reading") {
    options.resolve_files = [&](const std::vector<UniqueFd>&,
                                const std::function<bool()>& keep_going) {
      return Result<ResolvedFiles>(work(keep_going));
    };
  }
  SECTION("by a load") {
    options.resolve_files = [&](const std::vector<UniqueFd>&, const std::function<bool()>&) {
      ResolvedFiles resolved;
      resolved.load = [&](const ProgressListener& listener) -> Result<ModelInfo> {
        return work([&] { return listener({}) == GoOn::kYes; });
      };
      return Result<ResolvedFiles>(std::move(resolved));
    };
  }
  const LaneFixture fixture(options);
  const std::array<int, 1> files = {0};
  moetier_wire_hello hello = RawLane::GoodHello();
  hello.file_count = 1;
  {
    RawLane lane(fixture.socket_path);
    REQUIRE(lane.Send(hello, files));
    asked.get_future().wait();
  }
  CHECK(stopped.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready);
}

TEST_CASE("Fast lane: a client that says nothing is dropped, one that is slow is not",
          "[fastlane]") {
  const LaneFixture fixture;
  RawLane silent(fixture.socket_path);
  RawLane slow(fixture.socket_path);
  usleep(100'000);  // of the 300 ms that it has
  CHECK(slow.Attach());
  CHECK(silent.WaitForEnd());
}

TEST_CASE("Fast lane: silent connections do not keep others out", "[fastlane]") {
  FastLaneServer::Options options = LaneFixture::DefaultOptions();
  options.hello_patience = std::chrono::minutes(1);
  const LaneFixture fixture(options);
  std::vector<std::unique_ptr<RawLane>> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(std::make_unique<RawLane>(fixture.socket_path));
  CHECK(Lane(fixture).status == MOETIER_OK);
}

TEST_CASE("Fast lane: a second message ends the session", "[fastlane]") {
  const LaneFixture fixture;
  RawLane lane(fixture.socket_path);
  REQUIRE(lane.Attach());
  REQUIRE(lane.Send(RawLane::GoodHello()));
  CHECK(lane.WaitForEnd());
  CHECK(fixture.WaitForSessions(0));
}

TEST_CASE("Fast lane: sessions above the limit are refused until one ends", "[fastlane]") {
  FastLaneServer::Options options = LaneFixture::DefaultOptions();
  options.max_sessions = 64;
  LaneFixture fixture(options);
  std::vector<Lane> lanes;
  for (int i = 0; i < 64; ++i) {
    lanes.emplace_back(fixture);
    REQUIRE(lanes.back().status == MOETIER_OK);
  }
  for (size_t i = 0; i < lanes.size(); ++i) {
    LaneCall call(fixture, 1, i);
    const moetier_layer_call request = call.Request();
    REQUIRE(moetier_lane_compute(lanes[i].get(), &request, nullptr, nullptr) == MOETIER_OK);
    CHECK(call.output == call.Expected(fixture));
  }
  const Lane refused(fixture);
  CHECK(refused.status == MOETIER_REFUSED);
  CHECK(refused.error.code == kExhausted);
  CHECK(refused.error.reason == Number(Reason::kQuota));
  lanes.pop_back();
  REQUIRE(fixture.WaitForSessions(63));
  CHECK(Lane(fixture).status == MOETIER_OK);
}

TEST_CASE("Fast lane: draining refuses new sessions and answers with its reason", "[fastlane]") {
  LaneFixture fixture;
  fixture.server->BeginDrain();
  const Lane lane(fixture);
  CHECK(lane.status == MOETIER_REFUSED);
  CHECK(lane.error.code == kUnavailable);
  CHECK(lane.error.reason == Number(Reason::kDraining));
}

TEST_CASE("Fast lane: the page can neither shrink nor grow, and lies as the grant says",
          "[fastlane]") {
  const LaneFixture fixture;
  RawLane lane(fixture.socket_path);
  REQUIRE(lane.Attach());
  CHECK(ftruncate(lane.page_file(), 0) != 0);
  CHECK(errno == EPERM);
  CHECK(ftruncate(lane.page_file(), static_cast<off_t>(lane.grant().page_bytes) + 1) != 0);
  CHECK(fcntl(lane.page_file(), F_ADD_SEALS, F_SEAL_WRITE) != 0);
  CHECK(lane.head().magic == MOETIER_WIRE_MAGIC);
  CHECK(lane.head().size == sizeof(moetier_wire_page));
}

TEST_CASE("Fast lane: nobody listens, and the client says so", "[fastlane]") {
  const TempFolder folder;
  const std::string path = folder.File("none");
  moetier_attach attach{};
  attach.size = sizeof attach;
  attach.socket = path.c_str();
  moetier_lane* lane = nullptr;
  moetier_error error{};
  CHECK(moetier_lane_attach(&attach, 0, &lane, &error) == MOETIER_UNREACHABLE);
  CHECK(lane == nullptr);
  CHECK(error.text == path +
                          ".fastlane: No such file or directory; is moetierd running, with its "
                          "fast lane enabled?");
}

TEST_CASE("Fast lane: a socket of others is not taken for a daemon that is not there",
          "[fastlane]") {
  const TempFolder folder;
  const std::string path = folder.File("moetierd.sock");
  const std::string bound = path + MOETIER_WIRE_SOCKET;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, bound.c_str(), sizeof address.sun_path - 1);
  const UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
  REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::chmod(bound.c_str(), 0) == 0);
  moetier_attach attach{};
  attach.size = sizeof attach;
  attach.socket = path.c_str();
  moetier_lane* lane = nullptr;
  moetier_error error{};
  const AsNobody nobody;
  CHECK(moetier_lane_attach(&attach, 0, &lane, &error) == MOETIER_UNREACHABLE);
  CHECK(error.text == "you may not use " + bound +
                          ": be root, or join its group: `sudo usermod -aG moetier $USER`, then "
                          "log in again");
}

}  // namespace moetier::testing
