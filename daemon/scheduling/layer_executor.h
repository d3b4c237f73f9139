#ifndef MOETIER_DAEMON_SCHEDULING_LAYER_EXECUTOR_H_
#define MOETIER_DAEMON_SCHEDULING_LAYER_EXECUTOR_H_

#include <spdlog/logger.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "daemon/scheduling/call_source.h"
#include "daemon/scheduling/cpu_lane.h"
#include "daemon/scheduling/layer_batch.h"
#include "daemon/scheduling/layer_call.h"
#include "daemon/scheduling/loaded_model.h"
#include "daemon/scheduling/mailbox.h"
#include "tiers/expert_loader.h"

namespace moetier {

// Runs layer calls: merges those that wait for the same layer, reserves slots in waves, starts
// reads, computes what is resident while the rest lands, answers each call exactly once.
// Threads:  one thread of its own (`executor`) owns the ledgers and every batch; Submit and the
//           other public methods only send it messages. Callbacks run on it and must not block.
// Lifetime: Stop (or the destructor) drains: what was accepted is answered first. The reader that
//           serves the loader must outlive Stop.
class LayerExecutor final : public LoadListener, public CallSink {
 public:
  struct Options {
    uint32_t max_queued_calls = 1024;  // accepted and not yet answered
    uint32_t max_active_batches = 16;  // each holds a piece of results
    // How long it looks at a source that has clients before it sleeps; a wake-up costs its caller
    // some 10 us. 0: sleep at once.
    std::chrono::microseconds spin{20};
  };

  LayerExecutor(const Options& options, const Clock& clock, spdlog::logger& log, CpuLane& lane);
  ~LayerExecutor() override;

  // Before Start; the loader outlives the executor's thread.
  void set_loader(ExpertLoader* loader) { loader_ = loader; }
  void Start();
  // Answers what was accepted, then ends the thread; what is not done by `deadline` is answered
  // with kDraining, at the next run of experts. Idempotent.
  void Stop(std::optional<TimePoint> deadline = std::nullopt);

  // Takes a checked call of a model that was added. kExhausted when max_queued_calls wait,
  // kUnavailable when stopping; else `done` is called exactly once.
  Status Submit(LayerCall call, LayerDone done);

  // The session is gone: its calls that have not begun are answered with kCancelled.
  void EndSession(SessionId session);

  void AddModel(std::unique_ptr<LoadedModel> model);
  // Waits until the model's calls are answered and its reads have ended, then hands it back.
  // Null when there is no such model.
  std::unique_ptr<LoadedModel> RemoveModel(ModelId model);

  // Loads `keys` and keeps them resident until Unpin; gives how many were not pinned before. On an
  // error none of these is: kNoRoom when a size class could not serve calls any more, kDraining
  // after Stop. Waits for the reads.
  Result<uint32_t> Pin(const std::vector<ExpertKey>& keys);
  // Gives how many were pinned.
  uint32_t Unpin(const std::vector<ExpertKey>& keys);
  // Quarantined experts may be read again.
  void LiftQuarantine(ModelId model);

  // What the lane has done since the start.
  struct LaneCounters {
    uint64_t experts = 0;  // runs of one expert over its rows
    uint64_t rows = 0;     // (row, pick) pairs
    uint64_t bytes = 0;    // of records read by the kernels
    std::chrono::nanoseconds busy{0};
  };
  struct View {
    const std::map<ModelId, std::unique_ptr<LoadedModel>>& models;
    const LaneCounters& lane;
    uint32_t queued = 0;
  };
  // Loads of these experts, the hottest first, as many as free slots hold, while calls are served.
  // In the place of an earlier preheat of the model. No effect when the model is not there.
  void StartPreheat(ModelId model, std::vector<ExpertKey> hottest_first);
  [[nodiscard]] PreheatProgress PreheatOf(ModelId model);

  // Slots of one size class that stand side by side.
  struct SlotRun {
    SizeClass size_class{};
    SlotIndex first{};
    uint32_t count = 0;
  };
  // How a model's slots stand; all by size class, empty when the model is not there.
  struct SlotUse {
    std::vector<uint32_t> active;                          // in use or free for it
    std::vector<std::vector<SlotIndex>> spare;             // retired, ascending
    std::vector<std::pair<SizeClass, SlotIndex>> retired;  // since the last look
  };
  // Calls use at most so many slots a size class from now on; those beyond retire as soon as nobody
  // holds them. More than there are is no effect. kExhausted, kNoRoom when pins need more.
  Status LimitSlots(ModelId model, const std::vector<uint32_t>& slots);
  // Slots that have retired are in nobody's use until RestoreSlots.
  SlotUse TakeRetired(ModelId model);
  // Retired slots, with memory again, are used again; this is the model's budget now.
  void RestoreSlots(ModelId model, const std::vector<SlotRun>& runs, Bytes budget);

  // Runs `visit` on the executor's thread, and waits. False when there is no such model, or it is
  // being removed.
  bool WithModel(ModelId model, const std::function<void(LoadedModel&)>& visit);
  // Runs `visit` on the executor's thread, and waits.
  void Inspect(const std::function<void(const View&)>& visit);

  void OnLoad(LoadDone done) override;

  // Looks at `source` from now on; there is at most one. An error when no descriptor can be had.
  Status SetSource(CallSource& source);
  // Returns when it does not look any more.
  void ClearSource(CallSource& source);
  // For the source, from Poll.
  Status Take(LayerCall call, LayerDone done) override;

 private:
  struct NewCall {
    PendingCall pending;
  };
  struct Landed {
    LoadDone done;
  };
  // Anything rarer than calls and landings.
  struct Control {
    std::function<void()> run;
  };
  using Message = std::variant<NewCall, Landed, Control>;

  // A wave of one batch's experts, or one pinned expert.
  struct Wave {
    LoadedModel* model = nullptr;
    SizeClass size_class{};
    uint64_t batch = 0;         // 0: a pin
    uint32_t first_expert = 0;  // into the batch's experts()
    uint32_t unfinished = 0;
    std::vector<ExpertKey> keys;
    std::vector<float> heat;  // parallel to keys; empty for a pin
    std::shared_ptr<std::promise<Status>> pinned;
  };
  struct ReadyExpert {
    uint32_t index = 0;
    SlotIndex slot{};
    WaveId wave{};
  };
  struct ActiveBatch {
    ActiveBatch(std::vector<PendingCall> calls, const LayerGeometry& layer, LoadedModel& of)
        : batch(std::move(calls), layer), model(of) {}
    LayerBatch batch;
    LoadedModel& model;
    TimePoint started;
    std::chrono::nanoseconds computed{0};
    std::chrono::nanoseconds combined{0};
    bool begun = false;        // a piece is in work
    uint32_t next_expert = 0;  // the first that no wave asked for yet
    uint32_t unfinished = 0;   // experts of the piece that have neither run nor failed
    uint32_t waves = 0;
    std::vector<ReadyExpert> ready;
    std::vector<WaveId> finished_waves;
  };

  void Loop();
  void TakeMessages();
  void PollSource();
  void Rest();
  [[nodiscard]] bool SpinForWork();
  [[nodiscard]] uint32_t Room() const;
  void AnswerEarly();
  [[nodiscard]] std::optional<TimePoint> EarliestDeadline() const;
  void Admit();
  std::deque<PendingCall>::iterator NextCall();
  void LeavePlay(const LayerCall& call);
  void Begin(std::vector<PendingCall> calls, LoadedModel& model);
  void AdvanceChanged();
  void Advance(uint64_t id, ActiveBatch& active);
  void AskForWaves(uint64_t id, ActiveBatch& active);
  bool ComputeSome();
  [[nodiscard]] bool IsTimeUp() const;
  void Abandon();
  void AbandonBatch(uint64_t id, ActiveBatch& active);
  void FinishExpert(ActiveBatch& active, WaveId id);
  void Answer(ActiveBatch& active);
  void Reply(PendingCall& pending, Result<LayerOutput> result);
  void Step(LoadedModel& model, SizeClass size_class, const LedgerEvent& event);
  void StartLoad(LoadedModel& model, SizeClass size_class, const StartRead& start);
  void OnLanded(LoadDone done);
  void OnKeyReady(const KeyReady& ready);
  void OnKeyFailed(LoadedModel& model, const KeyFailed& failed);
  [[nodiscard]] Status CheckPins(const std::set<ExpertKey>& keys) const;
  static Status CheckPinRoom(const LoadedModel& model, size_t size_class, uint32_t wanted);
  std::future<Status> BeginPin(const ExpertKey& key);
  bool ReleasePin(const ExpertKey& key);  // false when it is not pinned
  void ReleaseWaveOf(WaveId id);
  static void NoteHeat(const ActiveBatch& active);
  void ContinuePreheats();
  void ContinuePreheat(LoadedModel& model);
  static void NotePreheatRead(LoadedModel& model, const ExpertKey& key);
  static void CountPreheated(LoadedModel& model, const ExpertKey& key);
  [[nodiscard]] bool Quiet() const;
  void RemoveIdleModels();
  void RunOnThread(const std::function<void()>& run) EXCLUDES(lifecycle_mu_);

  const Options options_;
  const Clock& clock_;
  spdlog::logger& log_;
  CpuLane& lane_;
  ExpertLoader* loader_ = nullptr;  // set once, before Start
  Mailbox<Message> mailbox_;
  std::atomic<uint32_t> accepted_{0};  // sequentially consistent with stopping_, see Submit
  std::atomic<bool> stopping_{false};
  std::atomic<TimePoint> abandon_at_{TimePoint::max()};  // set before stopping_, which publishes it
  Mutex lifecycle_mu_;
  bool running_ GUARDED_BY(lifecycle_mu_) = false;

  // The executor thread's own.
  CallSource* source_ = nullptr;
  std::vector<Message> messages_;
  CommandList commands_;
  std::deque<PendingCall> queue_;
  std::map<uint64_t, ActiveBatch> active_;                // by age
  uint64_t last_served_ = 0;                              // the batch that computed last
  std::unordered_map<SessionId, uint32_t> rows_in_play_;  // of calls in active_; none is 0
  std::unordered_map<WaveId, Wave> waves_;
  std::map<ExpertKey, WaveId> pins_;
  std::vector<ExpertKey> failed_pins_;
  std::map<ModelId, std::unique_ptr<LoadedModel>> models_;
  std::vector<uint64_t> changed_;  // batches to advance
  LaneCounters lane_counters_;
  uint64_t next_batch_ = 1;
  uint64_t next_wave_ = 1;
  std::vector<LaneTask> tasks_;

  std::jthread thread_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_LAYER_EXECUTOR_H_
