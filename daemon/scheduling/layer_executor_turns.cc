// LayerExecutor between sessions: whose call begins next, whose experts are computed next.

#include <algorithm>

#include "daemon/scheduling/layer_executor.h"

namespace moetier {
namespace {

// Rows of one session in play at a time, but for one larger call: enough to keep reads and kernels
// busy, and little enough that another session's call is soon begun.
constexpr uint32_t kSessionRows = 8 * LayerBatch::kPieceRows;

}  // namespace

// The oldest call of the session that is due first, among those that have not their share of rows
// in play; none when all have, or when no more batches may be active.
std::deque<PendingCall>::iterator LayerExecutor::NextCall() {
  auto next = queue_.end();
  if (active_.size() >= options_.max_active_batches) return next;
  for (auto it = queue_.begin(); it != queue_.end(); ++it) {
    const SessionId session = it->call.session;
    if (next != queue_.end() && turns_.Due(session) >= turns_.Due(next->call.session)) continue;
    const auto playing = rows_in_play_.find(session);
    if (playing == rows_in_play_.end() || playing->second < kSessionRows) next = it;
  }
  return next;
}

void LayerExecutor::LeavePlay(const LayerCall& call) {
  const auto session = rows_in_play_.find(call.session);
  session->second -= call.rows;
  if (session->second == 0) rows_in_play_.erase(session);
}

// Of the batches that have something to compute, that whose sessions are due first.
std::map<uint64_t, LayerExecutor::ActiveBatch>::iterator LayerExecutor::NextReady() {
  auto next = active_.end();
  for (auto it = active_.begin(); it != active_.end(); ++it) {
    if (it->second.ready.empty()) continue;
    if (next == active_.end() || DueOf(it->second) < DueOf(next->second)) next = it;
  }
  return next;
}

// When the first of the batch's sessions is due.
SessionTurns::Time LayerExecutor::DueOf(const ActiveBatch& active) const {
  SessionTurns::Time due = SessionTurns::Time::max();
  for (const PendingCall& pending : active.batch.calls()) {
    due = std::min(due, turns_.Due(pending.call.session));
  }
  return due;
}

// The run that was due now: each call of the batch pays for its part of the rows.
void LayerExecutor::ChargeSessions(ActiveBatch& active, std::chrono::nanoseconds busy) {
  turns_.Serve(DueOf(active));
  uint32_t rows = 0;
  for (const PendingCall& pending : active.batch.calls()) rows += pending.call.rows;
  for (const PendingCall& pending : active.batch.calls()) {
    turns_.Charge(pending.call.session, busy * pending.call.rows / rows);
  }
}

}  // namespace moetier
