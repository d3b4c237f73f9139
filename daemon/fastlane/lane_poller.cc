#include "daemon/fastlane/lane_poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "daemon/fastlane/watch_descriptor.h"

namespace moetier {
namespace {

constexpr uint64_t kChanged = 0;      // no session's number
constexpr uint32_t kCallsAPoll = 64;  // then the executor computes
constexpr int kMostEventRounds = 16;

Status Watch(int epoll, int descriptor, uint64_t number) {
  return WatchDescriptor(epoll, descriptor, EPOLLIN | EPOLLET, number, "a session's doorbell");
}

bool IsIdle(const std::shared_ptr<LaneRing>& ring) { return ring->idle(); }

}  // namespace

Result<std::unique_ptr<LanePoller>> LanePoller::Create(OnBroken on_broken) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return ErrnoError(errno, "make the fast lane's poller: epoll_create1");
  UniqueFd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return ErrnoError(errno, "make the fast lane's poller: eventfd");
  RETURN_IF_ERROR(Watch(epoll.get(), event.get(), kChanged));
  return std::unique_ptr<LanePoller>(
      new LanePoller(std::move(on_broken), std::move(epoll), std::move(event)));
}

Status LanePoller::Add(std::shared_ptr<LaneRing> ring) {
  RETURN_IF_ERROR(Watch(epoll_.get(), ring->doorbell(), Raw(ring->id())));
  Announce({.ring = std::move(ring), .add = true});
  return Ok{};
}

void LanePoller::Remove(const std::shared_ptr<LaneRing>& ring) {
  // The client holds the doorbell open: closing ours would not take it out.
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, ring->doorbell(), nullptr);
  Announce({.ring = ring, .add = false});
}

void LanePoller::Announce(Change change) {
  {
    const MutexLock lock(mu_);
    changes_.push_back(std::move(change));
    changed_.store(true, std::memory_order_release);
  }
  (void)eventfd_write(changed_event_.get(), 1);
}

void LanePoller::TakeChanges() {
  if (!changed_.load(std::memory_order_acquire)) return;
  std::vector<Change> changes;
  {
    const MutexLock lock(mu_);
    changes.swap(changes_);
    changed_.store(false, std::memory_order_relaxed);
  }
  for (Change& change : changes) {
    if (change.add) {
      change.ring->set_sleeps(false);
      rings_.push_back(std::move(change.ring));
      continue;
    }
    std::erase(rings_, change.ring);
    if (!change.ring->idle()) leaving_.push_back(std::move(change.ring));
  }
}

void LanePoller::Clear() {
  TakeChanges();
  rings_.clear();
  leaving_.clear();
}

void LanePoller::Poll(CallSink& sink, uint32_t room) {
  TakeChanges();
  if (!leaving_.empty()) std::erase_if(leaving_, IsIdle);
  uint32_t left = std::min(room, kCallsAPoll);
  for (size_t i = 0; i < rings_.size() && left > 0; ++i) {
    next_ = next_ + 1 < rings_.size() ? next_ + 1 : 0;
    left -= rings_[next_]->TakeSome(sink, left);
  }
}

bool LanePoller::Ready() {
  if (changed_.load(std::memory_order_acquire)) return true;
  // The last answer may be younger than the last Poll.
  if (std::ranges::any_of(leaving_, IsIdle)) return true;
  return std::ranges::any_of(rings_,
                             [](const std::shared_ptr<LaneRing>& ring) { return ring->Ready(); });
}

void LanePoller::BeginSleep() {
  for (const std::shared_ptr<LaneRing>& ring : rings_) ring->set_sleeps(true);
}

void LanePoller::EndSleep() {
  for (const std::shared_ptr<LaneRing>& ring : rings_) ring->set_sleeps(false);
  std::array<epoll_event, 64> events{};
  for (int round = 0; round < kMostEventRounds; ++round) {
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) NoteRing(events[static_cast<size_t>(i)].data.u64);
    if (count < static_cast<int>(events.size())) return;
  }
}

void LanePoller::NoteRing(uint64_t session) {
  const auto ring = std::ranges::find(rings_, SessionId{session}, &LaneRing::id);
  if (ring != rings_.end() && !(*ring)->NoteRing()) on_broken_((*ring)->id());
}

}  // namespace moetier
