// The client library against daemons that lie.

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>

#include "daemon/fastlane/handshake.h"
#include "daemon/fastlane/lane_page.h"
#include "daemon/fastlane/lane_socket.h"
#include "moetier/fastlane.h"
#include "tests/support/scripted_lane.h"

namespace moetier::testing {
namespace {

constexpr LaneShape kShape{.slots = 2, .max_rows = 4, .max_top_k = 8, .max_hidden = 16};

moetier_wire_grant GoodGrant(const LanePage& page) {
  const LaneLayout& layout = page.layout();
  moetier_wire_grant grant{};
  grant.head = MakeHead(MOETIER_WIRE_GRANT, sizeof grant);
  grant.page_bytes = layout.page_bytes;
  grant.slots_offset = layout.slots_offset;
  grant.slot_bytes = layout.slot_bytes;
  grant.experts_offset = layout.experts_offset;
  grant.weights_offset = layout.weights_offset;
  grant.hidden_offset = layout.hidden_offset;
  grant.output_offset = layout.output_offset;
  grant.max_rows = kShape.max_rows;
  grant.max_in_flight = kShape.slots;
  grant.max_top_k = kShape.max_top_k;
  grant.max_hidden = kShape.max_hidden;
  return grant;
}

// Answers the first HELLO with what `answer` sends.
moetier_status AttachTo(const std::function<void(int socket)>& answer,
                        const std::function<void(const moetier_grant&)>& look = {}) {
  const ScriptedLane daemon(answer);
  moetier_attach attach{};
  attach.size = sizeof attach;
  attach.socket = daemon.path().c_str();
  moetier_lane* lane = nullptr;
  moetier_error error{};
  const moetier_status status = moetier_lane_attach(&attach, 10'000'000, &lane, &error);
  CHECK((lane != nullptr) == (status == MOETIER_OK));
  if (lane != nullptr && look) look(*moetier_lane_grant(lane));
  const bool ours = status != MOETIER_OK && status != MOETIER_REFUSED;
  if (ours) CHECK(std::string(error.text).find(daemon.path()) == 0);
  if (status == MOETIER_REFUSED) CHECK(std::string(error.text) == std::string(511, '/'));
  moetier_lane_close(lane);
  return status;
}

moetier_status AttachWith(const std::function<void(moetier_wire_grant&)>& change) {
  const LanePage page = LanePage::Create(kShape).value();
  const UniqueFd doorbell(eventfd(0, EFD_CLOEXEC));
  moetier_wire_grant grant = GoodGrant(page);
  change(grant);
  const std::array<int, 2> files = {page.descriptor(), doorbell.get()};
  return AttachTo(
      [&](int socket) { (void)SendOnLane(socket, std::as_bytes(std::span(&grant, 1)), files); });
}

}  // namespace

TEST_CASE("Client: a grant whose geometry does not fit its page is not mapped", "[fastlane]") {
  using Grant = moetier_wire_grant;
  REQUIRE(AttachWith([](Grant&) {}) == MOETIER_OK);
  const std::vector<std::function<void(Grant&)>> lies = {
      [](Grant& g) { g.page_bytes += 1; },
      [](Grant& g) { g.page_bytes = UINT64_MAX; },
      [](Grant& g) { g.slots_offset = 0; },
      [](Grant& g) { g.slots_offset = g.page_bytes + 64; },
      [](Grant& g) { g.slots_offset += 1; },
      [](Grant& g) { g.slot_bytes = 0; },
      [](Grant& g) { g.slot_bytes += 64; },
      [](Grant& g) { g.max_in_flight += 1; },
      [](Grant& g) { g.max_in_flight = UINT32_MAX; },
      [](Grant& g) { g.max_in_flight = 0; },
      [](Grant& g) { g.max_rows = UINT32_MAX; },
      [](Grant& g) { g.max_rows = 0; },
      [](Grant& g) { g.max_top_k = UINT32_MAX; },
      [](Grant& g) { g.max_hidden = UINT32_MAX; },
      [](Grant& g) { g.experts_offset = 0; },
      [](Grant& g) { g.weights_offset = g.slot_bytes; },
      [](Grant& g) { g.hidden_offset = UINT64_MAX - 3; },
      [](Grant& g) { g.output_offset += 4096; },
      [](Grant& g) { g.output_offset += 1; }};
  for (size_t i = 0; i < lies.size(); ++i) {
    INFO("lie " << i);
    CHECK(AttachWith(lies[i]) == MOETIER_UNREACHABLE);
  }
}

TEST_CASE("Client: a grant of version 1.0 has no activation, a longer one is taken", "[fastlane]") {
  const LanePage page = LanePage::Create(kShape).value();
  const UniqueFd doorbell(eventfd(0, EFD_CLOEXEC));
  const std::array<int, 2> files = {page.descriptor(), doorbell.get()};
  std::array<std::byte, sizeof(moetier_wire_grant) + 64> longer{};
  moetier_wire_grant grant = GoodGrant(page);
  grant.activation = MOETIER_WIRE_GEGLU;
  std::memcpy(longer.data(), &grant, sizeof grant);
  const auto activation = [&](size_t bytes) {
    uint32_t seen = 99;
    const moetier_status status = AttachTo(
        [&](int socket) { (void)SendOnLane(socket, std::span(longer).first(bytes), files); },
        [&](const moetier_grant& granted) { seen = granted.activation; });
    CHECK(status == (bytes < MOETIER_WIRE_GRANT_1_0 ? MOETIER_UNREACHABLE : MOETIER_OK));
    return seen;
  };
  CHECK(activation(MOETIER_WIRE_GRANT_1_0 - 1) == 99);
  CHECK(activation(MOETIER_WIRE_GRANT_1_0) == MOETIER_ACTIVATION_UNKNOWN);
  CHECK(activation(sizeof grant) == MOETIER_GEGLU);
  CHECK(activation(longer.size()) == MOETIER_GEGLU);
}

TEST_CASE("Client: memory that could shrink, or none at all, is not mapped", "[fastlane]") {
  const LanePage page = LanePage::Create(kShape).value();
  const moetier_wire_grant grant = GoodGrant(page);
  const auto bytes = std::as_bytes(std::span(&grant, 1));
  const UniqueFd doorbell(eventfd(0, EFD_CLOEXEC));
  const UniqueFd unsealed(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(ftruncate(unsealed.get(), static_cast<off_t>(grant.page_bytes)) == 0);
  const std::array<int, 2> shrinking = {unsealed.get(), doorbell.get()};
  CHECK(AttachTo([&](int socket) { (void)SendOnLane(socket, bytes, shrinking); }) ==
        MOETIER_UNREACHABLE);
  CHECK(AttachTo([&](int socket) {
          (void)SendOnLane(socket, bytes, std::span(shrinking).first(1));
        }) == MOETIER_UNREACHABLE);
  CHECK(AttachTo([&](int socket) { (void)SendOnLane(socket, bytes, {}); }) == MOETIER_UNREACHABLE);
}

TEST_CASE("Client: an answer that is none, or none at all, is told apart", "[fastlane]") {
  CHECK(AttachTo([](int) {}) == MOETIER_GONE);
  const std::array<std::byte, 40> garbage{};
  CHECK(AttachTo([&](int socket) { (void)SendOnLane(socket, garbage, {}); }) ==
        MOETIER_UNREACHABLE);
  CHECK(AttachWith([](moetier_wire_grant& grant) { grant.head.major = 2; }) == MOETIER_UNREACHABLE);
  moetier_wire_refuse refuse = MakeRefuse({ErrorCode::kInternal, Reason::kIo, "x"});
  std::ranges::fill(refuse.text, '/');  // without its end
  refuse.head.major = 9;                // a refusal is readable whatever the version
  CHECK(AttachTo([&](int socket) {
          (void)SendOnLane(socket, std::as_bytes(std::span(&refuse, 1)), {});
        }) == MOETIER_REFUSED);
}

}  // namespace moetier::testing
