#include "daemon/rpc/session_registry.h"

#include <sys/random.h>

#include <cerrno>
#include <utility>

#include "base/unique_fd.h"
#include "daemon/transport/wire_text.h"

namespace moetier {
namespace {

Result<std::string> RandomToken() {
  std::string token(kSessionTokenBytes, '\0');
  // Up to 256 bytes come whole once the kernel's pool is ready; before that it may be interrupted.
  while (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    if (errno != EINTR) return ErrnoError(errno, "draw a session token: getrandom");
  }
  return token;
}

}  // namespace

Status SessionRegistry::CheckRoom() const {
  if (draining_) {
    return Error{ErrorCode::kUnavailable, Reason::kDraining,
                 "the daemon is stopping and takes no new sessions"};
  }
  if (sessions_.size() >= options_.max_sessions) {
    return Error{ErrorCode::kExhausted, Reason::kQuota,
                 fmt::format("{} sessions are attached, the most allowed; raise limits.sessions",
                             sessions_.size())};
  }
  return Ok{};
}

Result<std::shared_ptr<Session>> SessionRegistry::Open(std::string client, ModelInfo model,
                                                       std::weak_ptr<SessionEventSink> events) {
  ASSIGN_OR_RETURN(std::string token, RandomToken());
  const MutexLock lock(mu_);
  RETURN_IF_ERROR(CheckRoom());
  auto record = book_.Open({.client = std::move(client),
                            .model = model.id,
                            .model_name = model.name,
                            .transport = "grpc",
                            .since = clock_.Now(),
                            .hold = std::exchange(model.hold, nullptr)});
  const SessionId id = record->id;
  auto session = std::make_shared<Session>(Session::Options{.record = std::move(record),
                                                            .token = std::move(token),
                                                            .model = std::move(model),
                                                            .max_streams = options_.max_streams,
                                                            .events = std::move(events)});
  sessions_.emplace(id, session);
  return session;
}

Result<std::shared_ptr<Session>> SessionRegistry::Find(const v1::SessionRef& ref) const {
  std::shared_ptr<Session> session;
  {
    const MutexLock lock(mu_);
    const auto found = sessions_.find(SessionId{ref.session()});
    if (found != sessions_.end()) session = found->second;
  }
  if (session == nullptr || !EqualInConstantTime(session->options().token, ref.token())) {
    return Error{ErrorCode::kNotFound, Reason::kUnknownSession,
                 fmt::format("no session {} with this token is attached; it ends with its Attach "
                             "stream",
                             ref.session())};
  }
  return session;
}

void SessionRegistry::Close(SessionId id) {
  std::shared_ptr<Session> session;
  {
    const MutexLock lock(mu_);
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) return;
    session = std::move(found->second);
    sessions_.erase(found);
  }
  book_.Close(id);
  session->End({ErrorCode::kUnavailable, Reason::kUnknownSession,
                fmt::format("session {} has ended with its Attach stream; attach again", Raw(id))});
  core_.SessionEnded(id);
}

void SessionRegistry::BeginDrain(const std::string& message) {
  {
    const MutexLock lock(mu_);
    if (draining_) return;
    draining_ = true;
  }
  v1::SessionEvent event;
  event.mutable_draining()->set_message(WireText(message));
  SendToAll(event);
}

void SessionRegistry::DrainStreams(const Error& why) {
  for (const std::shared_ptr<Session>& session : sessions()) {
    session->DrainStreams(why);
    if (const auto sink = session->options().events.lock()) sink->EndStream(why);
  }
}

void SessionRegistry::SendToAll(const v1::SessionEvent& event) const {
  for (const std::shared_ptr<Session>& session : sessions()) {
    if (const auto sink = session->options().events.lock()) sink->SendEvent(event);
  }
}

std::vector<std::shared_ptr<Session>> SessionRegistry::sessions() const {
  const MutexLock lock(mu_);
  std::vector<std::shared_ptr<Session>> all;
  all.reserve(sessions_.size());
  for (const auto& [id, session] : sessions_) all.push_back(session);
  return all;
}

bool SessionRegistry::draining() const {
  const MutexLock lock(mu_);
  return draining_;
}

}  // namespace moetier
