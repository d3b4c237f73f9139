#ifndef MOETIER_TESTS_SUPPORT_FAKE_DAEMON_CORE_H_
#define MOETIER_TESTS_SUPPORT_FAKE_DAEMON_CORE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "daemon/scheduling/daemon_core.h"
#include "tests/support/fake_residency.h"
#include "tests/support/small_model.h"

namespace moetier {

// A core without models' weights: output[r] = sum over j of weight * (expert + 1) * hidden[r].
// Calls are answered on its own thread, at once or, when held, as the test says.
// Threads: any. Waits end after ten seconds, so that a broken server fails a test, not hangs it.
class FakeDaemonCore final : public DaemonCore {
 public:
  FakeDaemonCore();
  ~FakeDaemonCore() override;

  // Script. -----------------------------------------------------------------------------------
  void HoldCalls();                // from now on, Submit only queues
  bool WaitForHeld(size_t count);  // held calls, in order of submission
  [[nodiscard]] size_t held() const;
  [[nodiscard]] LayerCall HeldCall(size_t index) const;
  // Starts held call `index`: answered with its output, or kCancelled, kDeadlineExceeded if so.
  void StartHeld(size_t index);
  void FailHeld(size_t index, Error error);
  bool WaitForCancel(size_t index);  // until the transport has cancelled held call `index`
  void RefuseSubmits(Error error);
  void set_masked(std::vector<MaskedPick> masked);  // listed in every output
  void AddModel(ModelInfo model);
  void FailNextAdminCall(Error error);
  // Loads, verifies and pins wait for ReleaseWork; unloads and unpins do not.
  void HoldWork();
  void ReleaseWork();
  bool WaitForEndedSession(SessionId session);
  void HoldDrain();     // Drain waits until the test has started the held calls
  bool WaitForDrain();  // until Drain was called
  void FailDrain(std::optional<Error> held_up);
  [[nodiscard]] std::vector<std::string> admin_calls() const;
  [[nodiscard]] size_t submitted() const;
  [[nodiscard]] std::vector<ExpertKey> hinted() const;
  StatusSnapshot& snapshot() { return snapshot_; }  // before the server starts

  // DaemonCore. -------------------------------------------------------------------------------
  Status Submit(LayerCall call, LayerDone done) override;
  [[nodiscard]] std::optional<ModelInfo> FindModel(std::string_view name) const override;
  [[nodiscard]] std::optional<ModelInfo> ModelById(ModelId id) const override;
  [[nodiscard]] std::vector<ModelInfo> ListModels() const override;
  // Without a hold: nothing is unloaded to make room here.
  [[nodiscard]] std::optional<ModelInfo> HoldModel(ModelId id) override;
  Status LoadModel(const LoadSpec& spec, const ProgressListener& listener) override;
  Status UnloadModel(std::string_view name) override;
  Status VerifyModel(std::string_view name, const ProgressListener& listener) override;
  Result<uint32_t> Pin(ModelId model, LayerIndex layer,
                       std::span<const ExpertIndex> experts) override;
  uint32_t Hint(SessionId session, const std::vector<ExpertKey>& experts) override;
  Result<uint32_t> Unpin(ModelId model, LayerIndex layer,
                         std::span<const ExpertIndex> experts) override;
  // As AdminCall says; the heat that was set last.
  Result<ModelHeat> GetHeat(ModelId model) const override;
  Status SetHeat(ModelId model, const ModelHeat& heat) override;
  Status AwaitPreheat(ModelId model, const ProgressListener& listener) override;
  Result<Bytes> SetBudget(const ModelPool& of, Bytes bytes,
                          std::optional<std::chrono::seconds> hold) override;
  // Of 1 MiB.
  Result<BudgetLoan> LendBudget(const ModelPool& of, Bytes less,
                                std::chrono::seconds hold) override;
  FakeResidency& residency() override { return residency_; }
  [[nodiscard]] StatusSnapshot Snapshot() const override;
  void AddRouteTap(std::shared_ptr<RouteTap> tap) override;
  // It has no executor that could look at one.
  Status AddCallSource(CallSource& source) override;
  void RemoveCallSource(CallSource& source) override;
  void SessionEnded(SessionId session) override;
  // Waits for the answers of the held calls, which it starts unless the test wants to.
  Status Drain(TimePoint deadline) override;

 private:
  struct Held {
    LayerCall call;
    LayerDone done;  // empty once started
  };

  bool WaitUntil(const std::function<bool()>& reached) REQUIRES(mu_);
  Status AdminCall(std::string what);
  void WaitForRelease();
  void Post(std::function<void()> task) REQUIRES(mu_);
  void Start(Held& held) REQUIRES(mu_);
  void Loop();

  StatusSnapshot snapshot_;
  FakeResidency residency_;
  mutable Mutex mu_;
  ConditionVariable changed_;
  bool hold_ GUARDED_BY(mu_) = false;
  bool draining_ GUARDED_BY(mu_) = false;
  bool drain_waits_ GUARDED_BY(mu_) = false;
  std::optional<Error> held_up_ GUARDED_BY(mu_);
  bool hold_work_ GUARDED_BY(mu_) = false;
  bool stopping_ GUARDED_BY(mu_) = false;
  size_t submitted_ GUARDED_BY(mu_) = 0;
  size_t unanswered_ GUARDED_BY(mu_) = 0;
  std::optional<Error> refusal_ GUARDED_BY(mu_);
  std::vector<MaskedPick> masked_ GUARDED_BY(mu_);
  std::optional<Error> admin_failure_ GUARDED_BY(mu_);
  std::deque<Held> held_ GUARDED_BY(mu_);
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mu_);
  std::vector<SessionId> ended_ GUARDED_BY(mu_);
  std::vector<std::string> admin_calls_ GUARDED_BY(mu_);
  std::vector<std::shared_ptr<RouteTap>> taps_ GUARDED_BY(mu_);
  std::vector<ExpertKey> hinted_ GUARDED_BY(mu_);
  std::map<ModelId, ModelInfo> models_ GUARDED_BY(mu_);
  ModelHeat heat_ GUARDED_BY(mu_);
  std::thread thread_;  // the last member: it uses all others
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SUPPORT_FAKE_DAEMON_CORE_H_
