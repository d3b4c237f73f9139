// MAP_SLOT: how a trusted client gets the memory of a slot that it has leased on a GPU.

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "daemon/fastlane/handshake.h"
#include "daemon/fastlane/lane_socket.h"
#include "tests/support/eventually.h"
#include "tests/support/scripted_lane.h"
#include "tests/support/slot_daemon.h"

namespace moetier::testing {

TEST_CASE("MapSlot: a trusted client reads the record that it has leased on the GPU",
          "[fastlane]") {
  SlotDaemon daemon;
  for (uint16_t expert = 0; expert < 6; ++expert) {
    const std::vector<std::byte> record = daemon.RecordInRam(expert);
    const SlotLease lease = daemon.Lease(expert, kDevicePool);
    const OpenedSlot opened(daemon, lease.lease);
    REQUIRE(opened.status == MOETIER_OK);
    CHECK(opened.slot.memory == MOETIER_MEMORY_HOST);
    CHECK(opened.slot.device == SlotDaemon::kCard);
    CHECK(opened.slot.fingerprint == daemon.core().FindModel("demo")->fingerprint);
    CHECK(opened.slot.bytes == lease.bytes);
    CHECK(opened.Record() == record);
  }
  // Counted once it is sent: the client may be ahead.
  const ReplyCounters& counters = daemon.fixture.lane.counters;
  CHECK(Eventually([&] { return counters.totals().exported_slots == 6; }));
  CHECK(counters.totals().refused_exports.empty());
}

TEST_CASE("MapSlot: a budget that shrinks leaves the leased slot what it is", "[fastlane]") {
  SlotDaemon daemon;
  const std::vector<std::byte> record = daemon.RecordInRam(1);
  const SlotLease lease = daemon.Lease(1, kDevicePool);
  const OpenedSlot before(daemon, lease.lease);
  REQUIRE(before.status == MOETIER_OK);
  const ModelPool vram{daemon.core().FindModel("demo")->id, kDevicePool};
  REQUIRE(daemon.core().SetBudget(vram, 2_MiB, {}));
  const OpenedSlot after(daemon, lease.lease);
  REQUIRE(after.status == MOETIER_OK);
  CHECK(before.Record() == record);
  CHECK(after.Record() == record);
}

TEST_CASE("MapSlot: memory that the daemon has given back stays the client's alone", "[fastlane]") {
  SlotDaemon daemon;
  const SlotLease lease = daemon.Lease(1, kDevicePool);
  const OpenedSlot opened(daemon, lease.lease);
  REQUIRE(opened.status == MOETIER_OK);
  const std::vector<std::byte> record = opened.Record();
  daemon.Release(lease);
  REQUIRE(daemon.core().UnloadModel("demo"));
  CHECK(opened.Record() == record);
}

TEST_CASE("MapSlot: who is not trusted is told which key names it, and nothing of sessions",
          "[fastlane]") {
  const SlotDaemon daemon({getuid() + 1});
  const OpenedSlot opened(daemon, LeaseId{1}, [](moetier_map& map) { map.session = 1; });
  CHECK(opened.status == MOETIER_REFUSED);
  CHECK(opened.error.code == 7);  // PERMISSION_DENIED
  CHECK_THAT(opened.error.text, Catch::Contains(fmt::format("the user {} ", getuid())) &&
                                    Catch::Contains("fastlane.trusted_users"));
  const ReplyCounters::Totals totals = daemon.fixture.lane.counters.totals();
  CHECK(totals.faults.at(Reason::kBadConfig) == 1);
  CHECK(totals.refused_exports.at(Reason::kBadConfig) == 1);
  CHECK(totals.exported_slots == 0);
  const SlotDaemon nobody(std::vector<uint32_t>{});
  CHECK(OpenedSlot(nobody, LeaseId{1}).error.code == 7);
}

TEST_CASE("MapSlot: what is no lease of the session on a device is not found", "[fastlane]") {
  SlotDaemon daemon;
  const SlotLease in_ram = daemon.Lease(2, kRamPool);
  const SlotLease ended = daemon.Lease(1, kDevicePool);
  daemon.Release(ended);
  for (const LeaseId lease : {in_ram.lease, ended.lease, LeaseId{0}, LeaseId{UINT64_MAX}}) {
    const OpenedSlot opened(daemon, lease);
    CHECK(opened.status == MOETIER_REFUSED);
    CHECK(opened.error.code == 5);  // NOT_FOUND
    CHECK(opened.reason() == Reason::kUnknownLease);
  }
  const OpenedSlot stranger(daemon, ended.lease, [](moetier_map& map) { map.session = 1; });
  CHECK(stranger.reason() == Reason::kUnknownSession);
  const ReplyCounters::Totals totals = daemon.fixture.lane.counters.totals();
  CHECK(totals.refused_exports ==
        std::map<Reason, uint64_t>{{Reason::kUnknownSession, 1}, {Reason::kUnknownLease, 4}});
}

TEST_CASE("MapSlot: a device that gives no memory away says so", "[fastlane]") {
  SlotDaemon closed({getuid()}, SlotDaemon::Kind::kClosed);
  CHECK(OpenedSlot(closed, closed.Lease(1, kDevicePool).lease).error.code == 9);
  SlotDaemon emulated({getuid()}, SlotDaemon::Kind::kEmulatedDevice);
  CHECK(OpenedSlot(emulated, emulated.Lease(1, kDevicePool).lease).reason() == Reason::kNotYet);
}

TEST_CASE("MapSlot: arguments that break the header's rules are said at once", "[fastlane]") {
  const SlotDaemon daemon;
  const auto misuses = [&](const std::function<void(moetier_map&)>& change) {
    return OpenedSlot(daemon, LeaseId{1}, change).status == MOETIER_MISUSE;
  };
  CHECK(misuses([](moetier_map& map) { map.size -= 1; }));
  CHECK(misuses([](moetier_map& map) { map.token = nullptr; }));
  CHECK(misuses([](moetier_map& map) { map.token_bytes = 15; }));
  CHECK(moetier_open_slot(nullptr, 1, 0, nullptr, nullptr) == MOETIER_MISUSE);
  moetier_close_slot(nullptr);
}

TEST_CASE("MapSlot: the client takes nothing that does not lie in what came", "[fastlane]") {
  struct Came {
    moetier_status status;
    std::string text;
  };
  const auto open_from = [](const std::function<void(moetier_wire_device_slot&)>& lie,
                            size_t files_sent = 2) {
    moetier_wire_device_slot answer{};
    answer.head = MakeHead(MOETIER_WIRE_SLOT, sizeof answer);
    answer.granule = 4096;
    answer.offset = 4095;
    answer.bytes = 4097;
    answer.memory = MOETIER_WIRE_MEMORY_HOST;
    answer.file_count = 2;
    lie(answer);
    const UniqueFd memory(memfd_create("granule", MFD_CLOEXEC));
    const ScriptedLane daemon([&](int socket) {
      const std::array<int, 3> files = {memory.get(), memory.get(), memory.get()};
      (void)SendOnLane(socket, std::as_bytes(std::span(&answer, 1)),
                       std::span(files).first(files_sent));
    });
    const moetier_map map = MapFixture::MapAt(daemon.path());
    moetier_device_slot slot{};
    moetier_error error{};
    const moetier_status status = moetier_open_slot(&map, 1, 10'000'000, &slot, &error);
    CHECK((slot.granules > 0) == (status == MOETIER_OK));
    moetier_close_slot(&slot);
    return Came{status, error.text};
  };
  const auto truth = [](moetier_wire_device_slot&) {};
  CHECK(open_from(truth).status == MOETIER_OK);
  for (const size_t files : {0u, 1u, 3u})
    CHECK(open_from(truth, files).status == MOETIER_UNREACHABLE);
  using Slot = moetier_wire_device_slot;
  const std::vector<std::function<void(Slot&)>> lies = {
      [](Slot& slot) { slot.bytes = 4098; },
      [](Slot& slot) { slot.bytes = 0; },
      [](Slot& slot) { slot.bytes = UINT64_MAX; },
      [](Slot& slot) { slot.offset = 4096; },
      [](Slot& slot) { slot.offset = UINT64_MAX; },
      [](Slot& slot) { slot.granule = 0; },
      [](Slot& slot) { slot.granule = UINT64_MAX; },
      [](Slot& slot) { slot.file_count = 0; },
      [](Slot& slot) { slot.file_count = UINT32_MAX; },
      [](Slot& slot) { std::memset(slot.device, 'x', sizeof slot.device); },
      [](Slot& slot) { slot.head.kind = MOETIER_WIRE_ARENA; },
  };
  for (const auto& lie : lies) CHECK(open_from(lie).status == MOETIER_UNREACHABLE);
  for (const uint32_t memory : {0u, 3u, UINT32_MAX}) {
    const auto opened = open_from([memory](Slot& slot) { slot.memory = memory; });
    CHECK(opened.status == MOETIER_UNREACHABLE);
    CHECK_THAT(opened.text, Catch::Contains(fmt::format("of kind {}, which this client does not "
                                                        "know; update it",
                                                        memory)));
  }
}

}  // namespace moetier::testing
