#include "daemon/scheduling/session_turns.h"

#include <algorithm>

namespace moetier {
namespace {

constexpr size_t kManySessions = 64;  // then those that are due now are forgotten: nothing is lost

}  // namespace

SessionTurns::Time SessionTurns::Due(SessionId session) const {
  const auto found = due_.find(session);
  return found == due_.end() ? now_ : std::max(now_, found->second);
}

void SessionTurns::Serve(Time due) { now_ = std::max(now_, due); }

void SessionTurns::Charge(SessionId session, Time cost) {
  due_[session] = Due(session) + cost;
  if (due_.size() > kManySessions) {
    std::erase_if(due_, [this](const auto& entry) { return entry.second <= now_; });
  }
}

}  // namespace moetier
