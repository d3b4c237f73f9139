#include "daemon/rpc/session_event_queue.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <utility>

#include "daemon/rpc/residency_messages.h"

namespace moetier {

v1::SessionEvent ToProto(PendingEvent event) {
  if (auto* other = std::get_if<v1::SessionEvent>(&event)) return std::move(*other);
  v1::SessionEvent message;
  if (const auto* transfer = std::get_if<EndedTransfer>(&event)) {
    *message.mutable_transfer_done() = ToProto(*transfer);
    return message;
  }
  if (const auto* lost = std::get_if<LostLeases>(&event)) {
    *message.mutable_leases_lost() = ToProto(*lost);
    return message;
  }
  v1::Victims& victims = *message.mutable_victims();
  for (const VictimRun& run : std::get<std::vector<VictimRun>>(event)) {
    for (const Victim& victim : std::span(*run.batch).subspan(run.first, run.count)) {
      *victims.add_victims() = ToProto(victim);
    }
  }
  return message;
}

Status SessionEventQueue::Push(v1::SessionEvent event) {
  return Push(Entry(std::move(event)), 1, events_, kMaxEvents);
}

Status SessionEventQueue::Push(const Victims& victims) {
  const size_t count = victims->size();
  return Push(VictimRun{.batch = victims, .first = 0, .count = count}, count, notices_,
              kMaxNotices);
}

Status SessionEventQueue::Push(const EndedTransfer& transfer) {
  return Push(Entry(transfer), 1, notices_, kMaxNotices);
}

Status SessionEventQueue::Push(const LostLeases& lost) {
  return Push(Entry(lost), 1, events_, kMaxEvents);
}

Status SessionEventQueue::Push(Entry entry, size_t weight, size_t& count, size_t most) {
  if (count + weight > most) {
    return Error{
        ErrorCode::kExhausted, Reason::kQuota,
        fmt::format("{} events, {} victims and ended transfers wait for a client that does "
                    "not read its Attach stream; at most {} and {} may",
                    events_, notices_, kMaxEvents, kMaxNotices)};
  }
  entries_.push_back(std::move(entry));
  count += weight;
  return Ok{};
}

void SessionEventQueue::PushFirst(v1::SessionEvent event) {
  entries_.emplace_front(std::move(event));
  ++events_;
}

PendingEvent SessionEventQueue::Take() {
  if (auto* other = std::get_if<v1::SessionEvent>(&entries_.front())) {
    PendingEvent event(std::move(*other));
    entries_.pop_front();
    --events_;
    return event;
  }
  if (auto* transfer = std::get_if<EndedTransfer>(&entries_.front())) {
    PendingEvent event(std::move(*transfer));
    entries_.pop_front();
    --notices_;
    return event;
  }
  if (auto* lost = std::get_if<LostLeases>(&entries_.front())) {
    PendingEvent event(std::move(*lost));
    entries_.pop_front();
    --events_;
    return event;
  }
  std::vector<VictimRun> runs;
  size_t room = kMaxVictimsOfEvent;
  while (!entries_.empty() && room > 0) {
    auto* const front = std::get_if<VictimRun>(&entries_.front());
    if (front == nullptr) break;
    const size_t count = std::min(room, front->count);
    runs.push_back({.batch = front->batch, .first = front->first, .count = count});
    front->first += count;
    front->count -= count;
    room -= count;
    notices_ -= count;
    if (front->count == 0) entries_.pop_front();
  }
  return runs;
}

void SessionEventQueue::Clear() {
  entries_.clear();
  events_ = 0;
  notices_ = 0;
}

}  // namespace moetier
