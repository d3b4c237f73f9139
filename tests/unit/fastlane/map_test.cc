// MAP: how a client of a gRPC session gets the memory that its leases lie in.

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>

#include "daemon/fastlane/handshake.h"
#include "daemon/fastlane/lane_socket.h"
#include "tests/support/lane_fixture.h"
#include "tests/support/map_fixture.h"
#include "tests/support/raw_lane.h"
#include "tests/support/scripted_lane.h"

namespace moetier::testing {
namespace {

MapFixture DaemonWith(ArenaMemory memory, bool device = false) {
  ExpertCore::Options options;
  options.arena.memory = memory;
  if (device) options.emulated = {{.name = "emulated0", .budget = 1_MiB}};
  return MapFixture(std::move(options));
}
MapFixture SharedDaemon() { return DaemonWith(ArenaMemory::kShared); }

// What the C client makes of it; unmapped at the end.
struct Mapped {
  Mapped(const MapFixture& daemon, const std::function<void(moetier_map&)>& change = {})
      : Mapped(daemon.lane, change) {}
  Mapped(const LaneFixture& daemon, const std::function<void(moetier_map&)>& change = {}) {
    moetier_map map = MapFixture::MapAt(daemon.socket_path);
    if (change) change(map);
    status = moetier_map_arena(&map, 10'000'000, &arena, &error);
    CHECK((arena.memory != nullptr) == (status == MOETIER_OK));
  }
  ~Mapped() { moetier_unmap_arena(&arena); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(arena.memory), arena.bytes};
  }
  [[nodiscard]] Reason reason() const { return static_cast<Reason>(error.reason); }

  moetier_status status = MOETIER_OK;
  moetier_arena arena{};
  moetier_error error{};
};

moetier_wire_map WireMap() {
  moetier_wire_map map{};
  map.head = MakeHead(MOETIER_WIRE_MAP, sizeof map);
  map.session = MapFixture::kSession;
  std::memcpy(map.token, MapFixture::kToken, sizeof map.token);
  return map;
}

size_t OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

}  // namespace

TEST_CASE("Map: a session reads its model's arena, and its calls give the same bits",
          "[fastlane]") {
  const MapFixture map = SharedDaemon();
  const LaneFixture& fixture = map.lane;
  const Mapped mapped(map);
  REQUIRE(mapped.status == MOETIER_OK);
  CHECK(mapped.arena.bytes == fixture.core->Snapshot().pools.at(0).used.count());
  CHECK(mapped.arena.fingerprint == fixture.core->FindModel("demo")->fingerprint);
  CHECK(mapped.arena.pool == 0);
  const MapFixture unmapped = DaemonWith(ArenaMemory::kPrivate);
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    LaneCall call(fixture, 3, seed);
    CHECK(call.Expected(fixture) == call.Expected(unmapped.lane));
  }
  // What those calls read has landed in memory that we see.
  const auto zeros = std::ranges::count(mapped.bytes(), std::byte{0});
  CHECK(zeros < static_cast<ptrdiff_t>(mapped.arena.bytes / 10 * 9));
}

TEST_CASE("Map: it neither takes a lane's session nor leaves a descriptor behind", "[fastlane]") {
  const MapFixture map = SharedDaemon();
  { const Mapped first(map); }
  const size_t before = OpenFiles();
  for (int i = 0; i < 50; ++i) {
    const Mapped mapped(map);
    REQUIRE(mapped.status == MOETIER_OK);
  }
  CHECK(map.lane.WaitForSessions(0));
  for (int i = 0; i < 500 && OpenFiles() > before; ++i) usleep(10'000);  // the daemon's ends
  CHECK(OpenFiles() <= before);
}

TEST_CASE("Map: private memory is refused with what to set", "[fastlane]") {
  const MapFixture map = DaemonWith(ArenaMemory::kPrivate);
  const Mapped mapped(map);
  CHECK(mapped.status == MOETIER_REFUSED);
  CHECK(mapped.error.code == 9);  // FAILED_PRECONDITION
  CHECK(mapped.reason() == Reason::kBadConfig);
  CHECK_THAT(mapped.error.text, Catch::Contains("set memory.arena to shared"));
}

TEST_CASE("Map: who does not prove a session gets nothing", "[fastlane]") {
  const MapFixture map = SharedDaemon();
  std::string token = MapFixture::kToken;
  token.back() ^= 1;
  const Mapped wrong_token(
      map, [&](moetier_map& m) { m.token = reinterpret_cast<const uint8_t*>(token.data()); });
  CHECK(wrong_token.status == MOETIER_REFUSED);
  CHECK(wrong_token.reason() == Reason::kUnknownSession);
  const Mapped wrong_number(map, [](moetier_map& m) { m.session = 1; });
  CHECK(wrong_number.reason() == Reason::kUnknownSession);
  CHECK(map.lane.counters.totals().faults.at(Reason::kUnknownSession) == 2);
  const LaneFixture no_sessions;
  CHECK(Mapped(no_sessions).reason() == Reason::kNotYet);
}

TEST_CASE("Map: pools that are not there, or a device's, are told apart", "[fastlane]") {
  const MapFixture map = SharedDaemon();
  for (const uint32_t pool : {1u, 255u, 256u, UINT32_MAX}) {
    const Mapped mapped(map, [&](moetier_map& m) { m.pool = pool; });
    CHECK(mapped.status == MOETIER_REFUSED);
    CHECK(mapped.reason() == Reason::kBadPool);
  }
  const MapFixture with_device = DaemonWith(ArenaMemory::kShared, true);
  const Mapped device(with_device, [](moetier_map& m) { m.pool = 1; });
  CHECK(device.reason() == Reason::kNotYet);
  CHECK_THAT(device.error.text, Catch::Contains("pool 0 can"));
  CHECK(Mapped(with_device).status == MOETIER_OK);
}

TEST_CASE("Map: a MAP that is none is refused with what is wrong", "[fastlane]") {
  const MapFixture map = SharedDaemon();
  const auto text = [&](std::span<const std::byte> bytes, std::span<const int> files = {}) {
    RawLane lane(map.lane.socket_path);
    REQUIRE(lane.Send(bytes, files));
    const auto refuse = lane.ReadRefusal();
    CHECK(lane.WaitForEnd());
    return refuse ? std::string(refuse->text) : std::string();
  };
  moetier_wire_map wire = WireMap();
  const auto bytes = std::as_bytes(std::span(&wire, 1));
  wire.head.major = 2;
  CHECK(text(bytes) ==
        "MAP: version 2.3; this daemon speaks 1.3: update the older of daemon and client");
  wire = WireMap();
  CHECK(text(bytes.first(47)) == "MAP: 47 bytes that say they are 48; version 1 has at least 48");
  wire.head.size = 47;
  CHECK(text(bytes.first(47)) == "MAP: 47 bytes that say they are 47; version 1 has at least 48");
}

TEST_CASE("Map: a longer MAP, with descriptors nobody asked for, is taken", "[fastlane]") {
  const MapFixture map = SharedDaemon();
  std::array<std::byte, sizeof(moetier_wire_map) + 64> longer{};
  moetier_wire_map wire = WireMap();
  wire.head.size = longer.size();
  wire.head.minor = 9;
  std::memcpy(longer.data(), &wire, sizeof wire);
  const UniqueFd extra = UniqueFd::Open("/dev/null", O_RDONLY).value();
  const std::array<int, 2> files = {extra.get(), extra.get()};
  RawLane lane(map.lane.socket_path);
  REQUIRE(lane.Send(longer, files));
  std::array<std::byte, 256> answer{};
  pollfd wait{.fd = lane.socket(), .events = POLLIN, .revents = 0};
  REQUIRE(poll(&wait, 1, 10'000) == 1);
  CHECK(recv(lane.socket(), answer.data(), answer.size(), 0) == sizeof(moetier_wire_arena));
  CHECK(lane.WaitForEnd());
}

TEST_CASE("Map: a client that is gone before its answer does no harm", "[fastlane]") {
  const MapFixture map = SharedDaemon();
  const moetier_wire_map wire = WireMap();
  for (int i = 0; i < 30; ++i) {
    RawLane lane(map.lane.socket_path);
    REQUIRE(lane.Send(std::as_bytes(std::span(&wire, 1))));
    if (i % 2 == 0) (void)lane.Send(std::as_bytes(std::span(&wire, 1)));  // and once more
    lane.Hangup();
  }
  bool mapped = false;  // refused while the others' wait, as too many
  for (int i = 0; i < 1000 && !mapped; ++i) {
    const Mapped last(map);
    mapped = last.status == MOETIER_OK;
    if (!mapped) CHECK(last.reason() == Reason::kQuota);
    if (!mapped) usleep(10'000);
  }
  CHECK(mapped);
}

TEST_CASE("Map: a daemon that stops refuses", "[fastlane]") {
  const MapFixture map = SharedDaemon();
  map.lane.server->BeginDrain();
  CHECK(Mapped(map).reason() == Reason::kDraining);
}

TEST_CASE("Map: a mapped model keeps its budget, unloads, and its memory stays the client's",
          "[fastlane]") {
  const MapFixture map = SharedDaemon();
  ExpertCore& core = *map.lane.core;
  const Mapped mapped(map);
  REQUIRE(mapped.status == MOETIER_OK);
  const Result<Bytes> less = core.SetBudget({core.FindModel("demo")->id, kRamPool}, 4_MiB, {});
  REQUIRE(!less.has_value());
  CHECK(less.error().code == ErrorCode::kFailedPrecondition);
  CHECK_THAT(less.error().message, Catch::Contains("memory.arena to private"));
  const LaneCall call(map.lane, 3, 1);
  REQUIRE(!call.Expected(map.lane).empty());
  const std::vector<std::byte> before(mapped.bytes().begin(), mapped.bytes().end());
  CHECK(std::ranges::count(before, std::byte{0}) < static_cast<ptrdiff_t>(before.size()));
  REQUIRE(core.UnloadModel("demo").has_value());
  CHECK(std::ranges::equal(mapped.bytes(), before));  // still there: no SIGBUS, no zeros
}

TEST_CASE("Map: arguments that break the header's rules are said at once", "[fastlane]") {
  const MapFixture map = SharedDaemon();
  CHECK(Mapped(map, [](moetier_map& m) { m.size -= 1; }).status == MOETIER_MISUSE);
  CHECK(Mapped(map, [](moetier_map& m) { m.token = nullptr; }).status == MOETIER_MISUSE);
  CHECK(Mapped(map, [](moetier_map& m) { m.token_bytes = 15; }).status == MOETIER_MISUSE);
  moetier_map good = map.Map();
  moetier_error error{};
  CHECK(moetier_map_arena(&good, 0, nullptr, &error) == MOETIER_MISUSE);
  moetier_unmap_arena(nullptr);
}

namespace {

// A daemon that answers a MAP with `answer` and `file`.
moetier_status MapFrom(const moetier_wire_arena& answer, std::optional<int> file) {
  const ScriptedLane daemon([&](int socket) {
    const std::array<int, 1> files = {file.value_or(-1)};
    (void)SendOnLane(socket, std::as_bytes(std::span(&answer, 1)),
                     std::span(files).first(file ? 1 : 0));
  });
  const moetier_map map = MapFixture::MapAt(daemon.path());
  moetier_arena arena{};
  moetier_error error{};
  const moetier_status status = moetier_map_arena(&map, 10'000'000, &arena, &error);
  CHECK((arena.memory != nullptr) == (status == MOETIER_OK));
  moetier_unmap_arena(&arena);
  return status;
}

}  // namespace

TEST_CASE("Map: the client maps nothing that does not fit, or could shrink under it",
          "[fastlane]") {
  const UniqueFd sealed(memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(ftruncate(sealed.get(), 8192) == 0);
  REQUIRE(fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  moetier_wire_arena good{};
  good.head = MakeHead(MOETIER_WIRE_ARENA, sizeof good);
  good.bytes = 8192;
  CHECK(MapFrom(good, sealed.get()) == MOETIER_OK);
  CHECK(MapFrom(good, std::nullopt) == MOETIER_UNREACHABLE);
  const UniqueFd unsealed(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(ftruncate(unsealed.get(), 8192) == 0);
  CHECK(MapFrom(good, unsealed.get()) == MOETIER_UNREACHABLE);
  const UniqueFd device = UniqueFd::Open("/dev/zero", O_RDONLY).value();
  CHECK(MapFrom(good, device.get()) == MOETIER_UNREACHABLE);
  moetier_wire_arena lie = good;
  lie.bytes = 8193;
  CHECK(MapFrom(lie, sealed.get()) == MOETIER_UNREACHABLE);
  lie.bytes = UINT64_MAX;
  CHECK(MapFrom(lie, sealed.get()) == MOETIER_UNREACHABLE);
  lie.bytes = 0;
  CHECK(MapFrom(lie, sealed.get()) == MOETIER_UNREACHABLE);
  lie = good;
  lie.head.kind = MOETIER_WIRE_GRANT;
  CHECK(MapFrom(lie, sealed.get()) == MOETIER_UNREACHABLE);
  lie = good;
  lie.head.major = 2;
  CHECK(MapFrom(lie, sealed.get()) == MOETIER_UNREACHABLE);
}

}  // namespace moetier::testing
