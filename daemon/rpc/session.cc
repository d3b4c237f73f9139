#include "daemon/rpc/session.h"

#include <algorithm>

namespace moetier {

Status Session::AddStream(const std::shared_ptr<SessionStream>& stream) {
  const MutexLock lock(mu_);
  if (ended_) {
    return Error{
        ErrorCode::kUnavailable, Reason::kUnknownSession,
        fmt::format("session {} has ended with its Attach stream; attach again", Raw(id()))};
  }
  if (streams_.size() >= options_.max_streams) {
    return Error{ErrorCode::kExhausted, Reason::kQuota,
                 fmt::format("session {} has {} Decode streams open, the most allowed", Raw(id()),
                             streams_.size())};
  }
  streams_.push_back(stream);
  return Ok{};
}

void Session::RemoveStream(const SessionStream* stream) {
  const MutexLock lock(mu_);
  std::erase_if(streams_, [stream](const std::weak_ptr<SessionStream>& entry) {
    const std::shared_ptr<SessionStream> held = entry.lock();
    return held == nullptr || held.get() == stream;
  });
}

std::vector<std::shared_ptr<SessionStream>> Session::LiveStreams() {
  std::vector<std::shared_ptr<SessionStream>> live;
  for (const std::weak_ptr<SessionStream>& entry : streams_) {
    if (std::shared_ptr<SessionStream> stream = entry.lock()) live.push_back(std::move(stream));
  }
  return live;
}

void Session::End(const Error& why) {
  std::vector<std::shared_ptr<SessionStream>> streams;
  {
    const MutexLock lock(mu_);
    ended_ = true;
    streams = LiveStreams();
  }
  for (const std::shared_ptr<SessionStream>& stream : streams) stream->EndStream(why);
}

void Session::DrainStreams(const Error& why) {
  std::vector<std::shared_ptr<SessionStream>> streams;
  {
    const MutexLock lock(mu_);
    streams = LiveStreams();
  }
  for (const std::shared_ptr<SessionStream>& stream : streams) stream->DrainStream(why);
}

}  // namespace moetier
