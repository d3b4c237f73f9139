#include "daemon/rpc/session_event_queue.h"

#include <fmt/core.h>

#include <utility>

#include "daemon/rpc/residency_messages.h"

namespace moetier {

Status SessionEventQueue::Push(v1::SessionEvent event) {
  return Push(Entry(std::move(event)), events_, kMaxEvents);
}

Status SessionEventQueue::Push(const Victim& victim) {
  return Push(Entry(victim), notices_, kMaxNotices);
}

Status SessionEventQueue::Push(const EndedTransfer& transfer) {
  return Push(Entry(transfer), notices_, kMaxNotices);
}

Status SessionEventQueue::Push(Entry entry, size_t& count, size_t most) {
  if (count >= most) {
    return Error{
        ErrorCode::kExhausted, Reason::kQuota,
        fmt::format("{} events, {} victims and ended transfers wait for a client that does "
                    "not read its Attach stream; at most {} and {} may",
                    events_, notices_, kMaxEvents, kMaxNotices)};
  }
  entries_.push_back(std::move(entry));
  ++count;
  return Ok{};
}

void SessionEventQueue::PushFirst(v1::SessionEvent event) {
  entries_.emplace_front(std::move(event));
  ++events_;
}

v1::SessionEvent SessionEventQueue::Pop() {
  v1::SessionEvent event;
  if (auto* other = std::get_if<v1::SessionEvent>(&entries_.front())) {
    event = std::move(*other);
    entries_.pop_front();
    --events_;
    return event;
  }
  if (const auto* transfer = std::get_if<EndedTransfer>(&entries_.front())) {
    *event.mutable_transfer_done() = ToProto(*transfer);
    entries_.pop_front();
    --notices_;
    return event;
  }
  v1::Victims& victims = *event.mutable_victims();
  while (!entries_.empty() && victims.victims_size() < static_cast<int>(kMaxVictimsOfEvent)) {
    const auto* victim = std::get_if<Victim>(&entries_.front());
    if (victim == nullptr) break;
    *victims.add_victims() = ToProto(*victim);
    entries_.pop_front();
    --notices_;
  }
  return event;
}

void SessionEventQueue::Clear() {
  entries_.clear();
  events_ = 0;
  notices_ = 0;
}

}  // namespace moetier
