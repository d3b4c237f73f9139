#include "daemon/transport/session_book.h"

#include <utility>

namespace moetier {

std::shared_ptr<const SessionRecord> SessionBook::Open(Entry entry) {
  auto record = std::make_shared<SessionRecord>();
  record->client = std::move(entry.client);
  record->model = entry.model;
  record->model_name = std::move(entry.model_name);
  record->transport = std::move(entry.transport);
  record->since = entry.since;
  record->wall_since = std::chrono::system_clock::now();
  const MutexLock lock(mu_);
  record->id = SessionId{++last_id_};
  sessions_[record->id] = {.record = record, .hold = std::move(entry.hold)};
  return record;
}

void SessionBook::Close(SessionId id) {
  const MutexLock lock(mu_);
  sessions_.erase(id);
}

std::vector<std::shared_ptr<const SessionRecord>> SessionBook::sessions() const {
  const MutexLock lock(mu_);
  std::vector<std::shared_ptr<const SessionRecord>> all;
  all.reserve(sessions_.size());
  for (const auto& [id, session] : sessions_) all.push_back(session.record);
  return all;
}

}  // namespace moetier
