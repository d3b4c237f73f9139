#ifndef MOETIER_TESTS_SUPPORT_FAKE_RESIDENCY_H_
#define MOETIER_TESTS_SUPPORT_FAKE_RESIDENCY_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "daemon/scheduling/residency_calls.h"

namespace moetier {

// Leases and transfers without slots: answers what the test has put into `answers`, at once or,
// when held, when the test says so. A call of a session that is not open fails as the core's does.
// Threads: any. Waits end after ten seconds, so that a broken server fails a test, not hangs it.
class FakeResidency final : public ResidencyCalls {
 public:
  struct Answers {
    Bytes leasable{1 << 20};
    Result<std::vector<LeaseOutcome>> leases = std::vector<LeaseOutcome>();
    Result<uint32_t> released = 0u;
    Result<std::vector<TransferOutcome>> transfers = std::vector<TransferOutcome>();
    Result<LandedTransfers> landed = LandedTransfers();
    Status pool = Ok{};  // of Fence and Drain
    Result<std::vector<RoutedExpert>> routed = std::vector<RoutedExpert>();
  };

  // Script. -----------------------------------------------------------------------------------
  Answers answers;   // set before the calls
  void HoldCalls();  // from now on, calls wait
  bool WaitForHeld(size_t count);
  void AnswerHeld();     // those held now
  void IgnoreCancels();  // a core that had answered just before
  // What was asked, in order: "acquire 3.1 3.2 pool 0 wait 500 us".
  [[nodiscard]] std::vector<std::string> calls() const;
  bool WaitForCalls(size_t count);
  // The session as it was opened; it is open.
  [[nodiscard]] Session OpenedSession(SessionId session) const;
  // For FakeDaemonCore: what waits for the session, or at all, fails.
  void EndSession(SessionId session);
  void DrainAll();

  // ResidencyCalls. ---------------------------------------------------------------------------
  [[nodiscard]] Bytes LeasableBytes(ModelId model) const override;
  void OpenSession(const Session& session) override;
  void Acquire(AcquireRequest request, Done<std::vector<LeaseOutcome>> done) override;
  void Release(ReleaseRequest request, Done<uint32_t> done) override;
  void Transfer(TransferRequest request, Done<std::vector<TransferOutcome>> done) override;
  void Landed(LandedRequest request, Done<LandedTransfers> done) override;
  void Fence(PoolRequest request, std::function<void(Status)> done) override;
  void Drain(PoolRequest request, std::function<void(Status)> done) override;
  void Cancel(SessionId session, CallId call) override;  // told as "cancel"
  void Route(SessionId session, LayerIndex layer, uint32_t rows, std::vector<ExpertIndex> experts,
             Done<std::vector<RoutedExpert>> done) override;
  Result<SharedArena> OpenArena(ModelId model, PoolId pool) override;
  Result<LeasedMemory> OpenSlot(SessionId session, LeaseId lease, uint32_t most_granules) override;

 private:
  struct Held {
    SessionId session{};
    CallId call{};
    std::function<void(const Status&)> finish;  // with the answer, or with the error
  };

  template <typename T>
  void Answer(SessionId session, CallId call, std::string what, const Result<T>& answer,
              Done<T> done);
  void FailHeld(const std::function<bool(const Held&)>& concerned, const Error& error);
  bool WaitUntil(const std::function<bool()>& reached) REQUIRES(mu_);

  mutable Mutex mu_;
  ConditionVariable changed_;
  bool hold_ GUARDED_BY(mu_) = false;
  bool ignore_cancels_ GUARDED_BY(mu_) = false;
  std::deque<Held> held_ GUARDED_BY(mu_);
  std::vector<std::string> calls_ GUARDED_BY(mu_);
  std::map<SessionId, Session> sessions_ GUARDED_BY(mu_);
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SUPPORT_FAKE_RESIDENCY_H_
