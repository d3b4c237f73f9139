// Any bytes as a first message, and any words as a slot's request and sections: they are refused,
// or become a call whose promises hold. The first byte chooses: even a message, odd a slot.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/check.h"
#include "daemon/fastlane/handshake.h"
#include "daemon/fastlane/lane_ring.h"
#include "tests/support/small_model.h"

namespace moetier {
namespace {

// Checks what it takes and answers at once, with a fault or zeros.
class CheckingSink final : public CallSink {
 public:
  Status Take(LayerCall call, LayerDone done) override {
    const ModelGeometry geometry = SmallGeometry();
    const LayerGeometry* layer = geometry.Find(call.layer);
    const size_t picks = size_t{call.rows} * call.top_k;
    MOE_CHECK(layer != nullptr && layer->compute, "layer {}", Raw(call.layer));
    MOE_CHECK(call.rows >= 1 && call.rows <= 4 && call.top_k >= 1, "{} rows", call.rows);
    MOE_CHECK(call.hidden.size() == size_t{call.rows} * geometry.hidden, "hidden");
    MOE_CHECK(call.experts.size() == picks && call.weights.size() == picks, "picks");
    for (const float value : call.hidden) MOE_CHECK(std::isfinite(value), "hidden");
    for (const float value : call.weights) MOE_CHECK(std::isfinite(value), "weight");
    for (const uint16_t id : call.experts) MOE_CHECK(id < layer->experts, "expert {}", id);
    LayerOutput output;
    output.output.resize(call.hidden.size());
    done(std::move(output));
    return Ok{};
  }
};

void TryMessage(std::span<const uint8_t> bytes) {
  const Result<FirstMessage> first = ParseFirstMessage(std::as_bytes(bytes));
  if (!first) {
    MOE_CHECK(MakeRefuse(first.error()).text[0] != '\0', "a refusal says why");
    return;
  }
  if (const auto* map = std::get_if<MapRequest>(&*first)) {
    MOE_CHECK(map->token.size() == MOETIER_WIRE_TOKEN, "a token of {}", map->token.size());
    return;
  }
  if (const auto* slot = std::get_if<MapSlotRequest>(&*first)) {
    MOE_CHECK(slot->token.size() == MOETIER_WIRE_TOKEN, "a token of {}", slot->token.size());
    return;
  }
  const auto* hello = std::get_if<Hello>(&*first);
  MOE_CHECK(hello->file_count <= MOETIER_WIRE_MAX_FILES, "{} files", hello->file_count);
  MOE_CHECK(hello->client.size() <= 64 && hello->model.size() <= 72, "names");
}

void TrySlot(std::span<const uint8_t> bytes) {
  const LaneShape shape{.slots = 2, .max_rows = 4, .max_top_k = 8, .max_hidden = 4};
  LanePage page = LanePage::Create(shape).value();
  std::byte* const slots = page.section(0, 0);
  const size_t room = 2 * page.layout().slot_bytes;
  moetier_wire_page& head = page.head();
  const SteadyClock clock;
  ReplyCounters counters;
  SessionBook book;
  CheckingSink sink;
  LaneRing ring(
      {.model = SmallModel(), .record = book.Open({}), .limits = {.max_rows = 4, .lanes = 1}},
      std::move(page), UniqueFd(), clock, counters);
  // Twice, since a slot that was answered is taken again. Slot 1 keeps its own sequence number.
  for (uint32_t round = 1; round <= 2; ++round) {
    std::memcpy(slots, bytes.data(), std::min(bytes.size(), room));
    std::memcpy(slots, &round, sizeof round);
    ++head.submissions;
    (void)ring.TakeSome(sink, 8);
  }
  MOE_CHECK(ring.idle(), "every call was answered");
}

}  // namespace
}  // namespace moetier

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const uint8_t> bytes(data + 1, size - 1);
  if (data[0] % 2 == 0) {
    moetier::TryMessage(bytes);
  } else {
    moetier::TrySlot(bytes);
  }
  return 0;
}
