#ifndef MOETIER_DAEMON_FASTLANE_LANE_POLLER_H_
#define MOETIER_DAEMON_FASTLANE_LANE_POLLER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "daemon/fastlane/lane_ring.h"
#include "daemon/scheduling/call_source.h"

namespace moetier {

// The rings of all sessions, looked at in turn.
// Threads:  Add and Remove from any; the CallSource's methods on the executor's. A ring that was
//           removed is let go by the executor once its calls are answered.
// Lifetime: outlives its use as a source.
class LanePoller final : public CallSource {
 public:
  // Called on the executor's thread with a session whose client breaks the rules.
  using OnBroken = std::function<void(SessionId)>;

  static Result<std::unique_ptr<LanePoller>> Create(OnBroken on_broken);

  Status Add(std::shared_ptr<LaneRing> ring);
  void Remove(const std::shared_ptr<LaneRing>& ring);
  // When it is no source any more: what was removed and not yet let go.
  void Clear();

  void Poll(CallSink& sink, uint32_t room) override;
  [[nodiscard]] bool Ready() override;
  [[nodiscard]] bool HasClients() const override { return !rings_.empty(); }
  void BeginSleep() override;
  void EndSleep() override;
  [[nodiscard]] int descriptor() const override { return epoll_.get(); }

 private:
  struct Change {
    std::shared_ptr<LaneRing> ring;
    bool add = false;
  };

  LanePoller(OnBroken on_broken, UniqueFd epoll, UniqueFd changed_event)
      : on_broken_(std::move(on_broken)),
        epoll_(std::move(epoll)),
        changed_event_(std::move(changed_event)) {}
  void Announce(Change change) EXCLUDES(mu_);
  void TakeChanges() EXCLUDES(mu_);
  void NoteRing(uint64_t session);

  const OnBroken on_broken_;
  // The doorbells, edge-triggered: a doorbell is never read, since its client could make a read
  // block (O_NONBLOCK belongs to the description that both share) or steal what was rung.
  const UniqueFd epoll_;
  const UniqueFd changed_event_;  // in the epoll too: changes_ is not empty

  Mutex mu_;
  std::vector<Change> changes_ GUARDED_BY(mu_);
  std::atomic<bool> changed_{false};  // acquire/release: lets the executor look without the lock

  // The executor's own.
  std::vector<std::shared_ptr<LaneRing>> rings_;
  std::vector<std::shared_ptr<LaneRing>> leaving_;  // removed, with calls under way
  size_t next_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_FASTLANE_LANE_POLLER_H_
