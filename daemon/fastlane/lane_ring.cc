#include "daemon/fastlane/lane_ring.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "daemon/fastlane/handshake.h"
#include "daemon/transport/status_number.h"

namespace moetier {
namespace {

// A word that the client may be writing. Atomic, so that it is read exactly once.
uint32_t ReadWord(uint32_t& word, std::memory_order order = std::memory_order_relaxed) {
  return std::atomic_ref<uint32_t>(word).load(order);
}

void WriteWord(uint32_t& word, uint32_t value,
               std::memory_order order = std::memory_order_relaxed) {
  std::atomic_ref<uint32_t>(word).store(value, order);
}

void WakeOne(uint32_t& word) {
  (void)syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

moetier_wire_request CopyRequest(moetier_wire_request& shared) {
  moetier_wire_request request{};
  request.layer = ReadWord(shared.layer);
  request.rows = ReadWord(shared.rows);
  request.top_k = ReadWord(shared.top_k);
  request.hidden = ReadWord(shared.hidden);
  request.hidden_type = ReadWord(shared.hidden_type);
  request.timeout_us = ReadWord(shared.timeout_us);
  request.forced_lane = ReadWord(shared.forced_lane);
  return request;
}

void PutTiming(moetier_wire_reply& reply, const CallTiming& timing) {
  reply.queue_us = timing.queue_us;
  reply.plan_us = timing.plan_us;
  reply.read_wait_us = timing.read_wait_us;
  reply.compute_us = timing.compute_us;
  reply.combine_us = timing.combine_us;
  reply.total_us = timing.total_us;
}

}  // namespace

LaneRing::LaneRing(Options options, LanePage page, UniqueFd doorbell, const Clock& clock,
                   ReplyCounters& counters)
    : options_(std::move(options)),
      page_(std::move(page)),
      doorbell_(std::move(doorbell)),
      clock_(clock),
      counters_(counters),
      slots_(page_.shape().slots) {
  for (Slot& slot : slots_) slot.control = std::make_shared<CallControl>();
}

bool LaneRing::Ready() {
  const uint32_t now = ReadWord(page_.head().submissions, std::memory_order_seq_cst);
  if (std::exchange(submissions_, now) != now) pending_ = true;
  return pending_;
}

bool LaneRing::Submitted(uint32_t index) const {
  const Slot& slot = slots_[index];
  return !slot.busy && ReadWord(page_.slot(index).request.submitted, std::memory_order_acquire) ==
                           slot.sequence + 1;
}

uint32_t LaneRing::TakeSome(CallSink& sink, uint32_t room) {
  if (room == 0 || !Ready()) return 0;
  const auto count = static_cast<uint32_t>(slots_.size());
  const uint32_t most = std::min(room, kCallsARound);
  uint32_t looked_at = 0;
  uint32_t tried = 0;
  uint32_t taken = 0;
  for (; looked_at < count && tried < most; ++looked_at) {
    const uint32_t index = next_slot_;
    next_slot_ = next_slot_ + 1 == count ? 0 : next_slot_ + 1;
    if (!Submitted(index)) continue;
    ++tried;
    if (Take(index, sink)) ++taken;
  }
  pending_ = looked_at < count;  // the others have not been looked at
  taken_since_ring_ += tried;
  return taken;
}

bool LaneRing::Take(uint32_t index, CallSink& sink) {
  Slot& slot = slots_[index];
  slot.busy = true;
  ++slot.sequence;
  ++in_flight_;
  SessionRecord::Counters& counters = options_.record->counters;
  counters.requests.fetch_add(1, std::memory_order_relaxed);
  counters.in_flight.fetch_add(1, std::memory_order_relaxed);
  FaultPlace place;
  Result<LayerCall> call = Check(index, place);
  if (!call) {
    AnswerFault(index, call.error(), place);
    return false;
  }
  call->model = options_.model.id;
  call->session = id();
  slot.control->cancelled.store(false, std::memory_order_relaxed);
  call->control = slot.control;
  slot.rows = call->rows;
  const Status accepted =
      sink.Take(*std::move(call), [this, index](const Result<LayerOutput>& output) {
        if (output) {
          AnswerResult(index, *output);
        } else {
          AnswerFault(index, output.error(), {});
        }
      });
  if (!accepted) AnswerFault(index, accepted.error(), {});
  return accepted.has_value();
}

void LaneRing::CopyPicks(uint32_t index, const moetier_wire_request& request) {
  experts_.clear();
  weights_.clear();
  // Beyond the grant the check refuses rows or top_k before it looks at picks.
  if (request.rows > page_.shape().max_rows || request.top_k > page_.shape().max_top_k) return;
  const size_t picks = size_t{request.rows} * request.top_k;
  auto* const experts =
      reinterpret_cast<uint32_t*>(page_.section(index, page_.layout().experts_offset));
  auto* const weights =
      reinterpret_cast<uint32_t*>(page_.section(index, page_.layout().weights_offset));
  for (size_t i = 0; i < picks; ++i) {
    experts_.push_back(ReadWord(experts[i]));
    weights_.push_back(std::bit_cast<float>(ReadWord(weights[i])));
  }
}

Result<LayerCall> LaneRing::Check(uint32_t index, FaultPlace& place) {
  const moetier_wire_request request = CopyRequest(page_.slot(index).request);
  CopyPicks(index, request);
  const uint32_t value_bytes =
      BytesPerValue(static_cast<HiddenType>(request.hidden_type)).value_or(0);
  const LayerRequestView view{
      .layer = request.layer,
      .rows = request.rows,
      .top_k = request.top_k,
      .hidden_type = request.hidden_type,
      .hidden = page_.section(index, page_.layout().hidden_offset),
      // Equal to what is expected only if `hidden` is the model's.
      .hidden_bytes = request.rows <= page_.shape().max_rows
                          ? uint64_t{request.rows} * request.hidden * value_bytes
                          : 0,
      .experts = experts_,
      .weights = weights_,
      .timeout_us = request.timeout_us,
      .forced_lane = request.forced_lane};
  return CheckLayerRequest(view, *options_.model.geometry, options_.limits, clock_.Now(), place);
}

void LaneRing::AnswerResult(uint32_t index, const LayerOutput& output) {
  const uint32_t rows = slots_[index].rows;
  options_.record->counters.rows.fetch_add(rows, std::memory_order_relaxed);
  counters_.CountResult(options_.model.id, rows);
  // [rows, hidden] of a checked call: it fits the section.
  std::memcpy(page_.section(index, page_.layout().output_offset), output.output.data(),
              output.output.size() * sizeof(float));
  moetier_wire_reply& reply = page_.slot(index).reply;
  reply.code = 0;
  reply.reason = 0;
  reply.flags = 0;
  reply.hits = output.hits;
  reply.in_flight = output.in_flight;
  reply.misses = output.misses;
  reply.masked = static_cast<uint32_t>(output.masked.size());
  PutTiming(reply, output.timing);
  Publish(index);
}

void LaneRing::AnswerFault(uint32_t index, const Error& error, const FaultPlace& place) {
  options_.record->counters.faults.fetch_add(1, std::memory_order_relaxed);
  counters_.CountFault(options_.model.id, error.reason);
  moetier_wire_reply& reply = page_.slot(index).reply;
  reply.code = StatusNumber(error.code);
  reply.reason = static_cast<uint32_t>(error.reason);
  reply.flags = 0;
  if (place.row) reply.flags |= MOETIER_WIRE_HAS_ROW;
  if (place.expert) reply.flags |= MOETIER_WIRE_HAS_EXPERT;
  reply.row = place.row.value_or(0);
  reply.expert = place.expert.value_or(0);
  reply.hits = 0;
  reply.in_flight = 0;
  reply.misses = 0;
  reply.masked = 0;
  PutTiming(reply, {});
  PutText(reply.field, place.field);
  PutText(reply.text, error.message);
  Publish(index);
}

void LaneRing::Publish(uint32_t index) {
  Slot& slot = slots_[index];
  moetier_wire_slot& shared = page_.slot(index);
  options_.record->counters.in_flight.fetch_sub(1, std::memory_order_relaxed);
  --in_flight_;
  slot.busy = false;
  // Sequentially consistent, as the client's store to `client_waits` and its look at `answered`
  // are: one of the two sees the other's word.
  WriteWord(shared.reply.answered, slot.sequence, std::memory_order_seq_cst);
  if (ReadWord(shared.request.client_waits, std::memory_order_seq_cst) != 0) {
    WakeOne(shared.reply.answered);
  }
}

// Sequentially consistent, as the client's words are: after it, either Ready sees a submission or
// the client sees that it must ring.
void LaneRing::set_sleeps(bool sleeps) {
  WriteWord(page_.head().daemon_sleeps, sleeps ? 1 : 0, std::memory_order_seq_cst);
}

bool LaneRing::NoteRing() {
  idle_rings_ = std::exchange(taken_since_ring_, 0) == 0 ? idle_rings_ + 1 : 0;
  return idle_rings_ <= kMaxIdleRings;
}

}  // namespace moetier
