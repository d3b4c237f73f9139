// The wire's byte map. A change here breaks clients in the field: only reserved places and ends may
// be given a meaning.

#include <catch2/catch.hpp>
#include <cstddef>

#include "daemon/fastlane/lane_page.h"
#include "daemon/transport/hidden_rows.h"
#include "moetier/fastlane.h"
#include "moetier/fastlane_wire.h"

namespace moetier {

#define CHECK_OFFSET(type, field, offset) CHECK(offsetof(type, field) == (offset))

TEST_CASE("Wire: the handshake's messages lie as version 1.3 has them", "[fastlane]") {
  CHECK(MOETIER_WIRE_MAGIC == 0x4c46544d);
  CHECK(MOETIER_WIRE_MAJOR == 1);
  CHECK(sizeof(moetier_wire_head) == 16);
  CHECK_OFFSET(moetier_wire_head, size, 4);
  CHECK_OFFSET(moetier_wire_head, major, 8);
  CHECK_OFFSET(moetier_wire_head, minor, 10);
  CHECK_OFFSET(moetier_wire_head, kind, 12);
  CHECK(sizeof(moetier_wire_hello) == 176);
  CHECK_OFFSET(moetier_wire_hello, fingerprint, 16);
  CHECK_OFFSET(moetier_wire_hello, max_rows, 24);
  CHECK_OFFSET(moetier_wire_hello, max_in_flight, 28);
  CHECK_OFFSET(moetier_wire_hello, file_count, 32);
  CHECK_OFFSET(moetier_wire_hello, client, 40);
  CHECK_OFFSET(moetier_wire_hello, model, 104);
  CHECK(sizeof(moetier_wire_grant) == 312);
  CHECK_OFFSET(moetier_wire_grant, session, 16);
  CHECK_OFFSET(moetier_wire_grant, fingerprint, 24);
  CHECK_OFFSET(moetier_wire_grant, page_bytes, 32);
  CHECK_OFFSET(moetier_wire_grant, slots_offset, 40);
  CHECK_OFFSET(moetier_wire_grant, slot_bytes, 48);
  CHECK_OFFSET(moetier_wire_grant, experts_offset, 56);
  CHECK_OFFSET(moetier_wire_grant, weights_offset, 64);
  CHECK_OFFSET(moetier_wire_grant, hidden_offset, 72);
  CHECK_OFFSET(moetier_wire_grant, output_offset, 80);
  CHECK_OFFSET(moetier_wire_grant, max_rows, 88);
  CHECK_OFFSET(moetier_wire_grant, max_in_flight, 92);
  CHECK_OFFSET(moetier_wire_grant, max_top_k, 96);
  CHECK_OFFSET(moetier_wire_grant, max_hidden, 100);
  CHECK_OFFSET(moetier_wire_grant, model, 104);
  CHECK_OFFSET(moetier_wire_grant, arithmetic, 176);
  CHECK_OFFSET(moetier_wire_grant, daemon_version, 240);
  CHECK_OFFSET(moetier_wire_grant, activation, MOETIER_WIRE_GRANT_1_0);
  CHECK_OFFSET(moetier_wire_grant, reserved, 308);
  CHECK(sizeof(moetier_wire_refuse) == 536);
  CHECK_OFFSET(moetier_wire_refuse, code, 16);
  CHECK_OFFSET(moetier_wire_refuse, reason, 20);
  CHECK_OFFSET(moetier_wire_refuse, text, 24);
  CHECK(sizeof(moetier_wire_map) == 48);
  CHECK(MOETIER_WIRE_TOKEN == 16);
  CHECK_OFFSET(moetier_wire_map, session, 16);
  CHECK_OFFSET(moetier_wire_map, token, 24);
  CHECK_OFFSET(moetier_wire_map, pool, 40);
  CHECK(sizeof(moetier_wire_arena) == 40);
  CHECK_OFFSET(moetier_wire_arena, fingerprint, 16);
  CHECK_OFFSET(moetier_wire_arena, bytes, 24);
  CHECK_OFFSET(moetier_wire_arena, pool, 32);
  CHECK(sizeof(moetier_wire_map_slot) == 48);
  CHECK_OFFSET(moetier_wire_map_slot, session, 16);
  CHECK_OFFSET(moetier_wire_map_slot, token, 24);
  CHECK_OFFSET(moetier_wire_map_slot, lease, 40);
  CHECK(sizeof(moetier_wire_device_slot) == 112);
  CHECK_OFFSET(moetier_wire_device_slot, fingerprint, 16);
  CHECK_OFFSET(moetier_wire_device_slot, lease, 24);
  CHECK_OFFSET(moetier_wire_device_slot, granule, 32);
  CHECK_OFFSET(moetier_wire_device_slot, offset, 40);
  CHECK_OFFSET(moetier_wire_device_slot, bytes, 48);
  CHECK_OFFSET(moetier_wire_device_slot, memory, 56);
  CHECK_OFFSET(moetier_wire_device_slot, file_count, 60);
  CHECK_OFFSET(moetier_wire_device_slot, device, 64);
}

TEST_CASE("Wire: the page lies as version 1.3 has it, each side's words on lines of its own",
          "[fastlane]") {
  CHECK(sizeof(moetier_wire_page) == 192);
  CHECK_OFFSET(moetier_wire_page, size, 4);
  CHECK_OFFSET(moetier_wire_page, major, 8);
  CHECK_OFFSET(moetier_wire_page, submissions, 64);
  CHECK_OFFSET(moetier_wire_page, daemon_sleeps, 128);
  CHECK(sizeof(moetier_wire_slot) == 1024);
  CHECK_OFFSET(moetier_wire_slot, request, 0);
  CHECK_OFFSET(moetier_wire_slot, reply, 128);
  CHECK_OFFSET(moetier_wire_request, submitted, 0);
  CHECK_OFFSET(moetier_wire_request, client_waits, 4);
  CHECK_OFFSET(moetier_wire_request, layer, 8);
  CHECK_OFFSET(moetier_wire_request, rows, 12);
  CHECK_OFFSET(moetier_wire_request, top_k, 16);
  CHECK_OFFSET(moetier_wire_request, hidden, 20);
  CHECK_OFFSET(moetier_wire_request, hidden_type, 24);
  CHECK_OFFSET(moetier_wire_request, timeout_us, 28);
  CHECK_OFFSET(moetier_wire_request, forced_lane, 32);
  CHECK_OFFSET(moetier_wire_reply, answered, 0);
  CHECK_OFFSET(moetier_wire_reply, code, 4);
  CHECK_OFFSET(moetier_wire_reply, reason, 8);
  CHECK_OFFSET(moetier_wire_reply, flags, 12);
  CHECK_OFFSET(moetier_wire_reply, row, 16);
  CHECK_OFFSET(moetier_wire_reply, expert, 20);
  CHECK_OFFSET(moetier_wire_reply, hits, 24);
  CHECK_OFFSET(moetier_wire_reply, in_flight, 28);
  CHECK_OFFSET(moetier_wire_reply, misses, 32);
  CHECK_OFFSET(moetier_wire_reply, masked, 36);
  CHECK_OFFSET(moetier_wire_reply, queue_us, 40);
  CHECK_OFFSET(moetier_wire_reply, plan_us, 44);
  CHECK_OFFSET(moetier_wire_reply, read_wait_us, 48);
  CHECK_OFFSET(moetier_wire_reply, compute_us, 52);
  CHECK_OFFSET(moetier_wire_reply, combine_us, 56);
  CHECK_OFFSET(moetier_wire_reply, total_us, 60);
  CHECK_OFFSET(moetier_wire_reply, field, 128);
  CHECK_OFFSET(moetier_wire_reply, text, 160);
}

TEST_CASE("Wire: the client's types are the daemon's", "[fastlane]") {
  CHECK(MOETIER_F32 == static_cast<uint32_t>(HiddenType::kF32));
  CHECK(MOETIER_F16 == static_cast<uint32_t>(HiddenType::kF16));
  CHECK(MOETIER_BF16 == static_cast<uint32_t>(HiddenType::kBF16));
}

TEST_CASE("PlanLane: sections lie apart, in order, within their slot and the page", "[fastlane]") {
  for (const LaneShape& shape :
       {LaneShape{1, 1, 1, 1}, LaneShape{4, 512, 64, 7168}, LaneShape{256, 8192, 64, 16384}}) {
    const LaneLayout layout = PlanLane(shape);
    const uint64_t picks = uint64_t{shape.max_rows} * shape.max_top_k * 4;
    const uint64_t values = uint64_t{shape.max_rows} * shape.max_hidden * 4;
    CHECK(layout.slots_offset >= sizeof(moetier_wire_page));
    CHECK(layout.experts_offset >= sizeof(moetier_wire_slot));
    CHECK(layout.weights_offset >= layout.experts_offset + picks);
    CHECK(layout.hidden_offset >= layout.weights_offset + picks);
    CHECK(layout.output_offset >= layout.hidden_offset + values);
    CHECK(layout.slot_bytes >= layout.output_offset + values);
    CHECK(layout.page_bytes >= layout.slots_offset + shape.slots * layout.slot_bytes);
    for (const uint64_t offset :
         {layout.slots_offset, layout.slot_bytes, layout.experts_offset, layout.weights_offset,
          layout.hidden_offset, layout.output_offset}) {
      CHECK(offset % 64 == 0);
    }
  }
}

}  // namespace moetier
