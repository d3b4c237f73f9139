#ifndef MOETIER_DAEMON_SCHEDULING_LAYER_EXECUTOR_H_
#define MOETIER_DAEMON_SCHEDULING_LAYER_EXECUTOR_H_

#include <spdlog/logger.h>

#include <array>
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
#include <span>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "daemon/scheduling/call_source.h"
#include "daemon/scheduling/cpu_lane.h"
#include "daemon/scheduling/lane_counters.h"
#include "daemon/scheduling/layer_batch.h"
#include "daemon/scheduling/layer_call.h"
#include "daemon/scheduling/layer_planner.h"
#include "daemon/scheduling/loaded_model.h"
#include "daemon/scheduling/mailbox.h"
#include "daemon/scheduling/prefetcher.h"
#include "daemon/scheduling/residency_desk.h"
#include "daemon/scheduling/route_tap.h"
#include "daemon/scheduling/session_turns.h"
#include "daemon/scheduling/slot_use.h"
#include "tiers/device/device.h"
#include "tiers/expert_loader.h"

namespace moetier {

// Runs layer calls: merges those that wait for the same layer, reserves slots in waves, starts
// reads, computes what is resident while the rest lands, answers each call exactly once. Where
// there is a device, its lanes run beside the CPU's and the reads: a piece of a batch is planned
// over all of them, and experts that were computed from RAM are copied to the device's memory.
// Threads:  one thread of its own (`executor`) owns the ledgers and every batch; Submit and the
//           other public methods only send it messages. Callbacks run on it and must not block.
// Lifetime: Stop (or the destructor) drains: what was accepted is answered first. The reader that
//           serves the loader must outlive Stop.
class LayerExecutor final : public LoadListener, public DeviceListener, public CallSink {
  friend class SteppedExecutor;  // takes the thread's turns in its place (tests/sim)

 public:
  struct Options {
    uint32_t max_queued_calls = 1024;  // accepted and not yet answered
    uint32_t max_active_batches = 16;  // each holds a piece of results
    // How long it looks at a source that has clients before it sleeps; a wake-up costs its caller
    // some 10 us. 0: sleep at once.
    std::chrono::microseconds spin{20};
    PrefetchOptions prefetch{};
  };

  LayerExecutor(const Options& options, const Clock& clock, spdlog::logger& log, CpuLane& lane);
  ~LayerExecutor() override;

  // Before Start; the loader outlives the executor's thread.
  void set_loader(ExpertLoader* loader) { loader_ = loader; }
  // Before Start; the device is started before it too, and stopped after Stop.
  void set_device(Device* device) { device_ = device; }
  void Start();
  // Answers what was accepted, then ends the thread. Idempotent.
  void Stop();
  // What is not done by `deadline`, or an earlier one, is answered with kDraining, at the next run.
  // kUnavailable, and what it is, when work of the drive or the device goes on kStopsAfter beyond
  // the deadline: it may use the models' memory, so the thread goes on, too, and nothing of it may
  // be destroyed.
  Status StopBy(TimePoint deadline) EXCLUDES(lifecycle_mu_);
  static constexpr std::chrono::milliseconds kStopsAfter{2000};

  // Takes a checked call of a model that was added. kExhausted when max_queued_calls wait,
  // kUnavailable when stopping; else `done` is called exactly once.
  Status Submit(LayerCall call, LayerDone done);

  // As DaemonCore::AddRouteTap.
  void AddTap(std::shared_ptr<RouteTap> tap);

  // The session is gone: its calls that have not begun are answered with kCancelled, its leases and
  // transfers end.
  void EndSession(SessionId session);

  // Runs `call` on its thread, where it may use the desk, without waiting. False, and it is not
  // run, when the thread has ended.
  bool AtDesk(std::function<void(ResidencyDesk&)> call) EXCLUDES(lifecycle_mu_);
  // As ResidencyCalls says; does not wait for the executor's thread. 0 when there is no such model.
  [[nodiscard]] Bytes LeasableBytes(ModelId model) const EXCLUDES(leasable_mu_);

  void AddModel(std::unique_ptr<LoadedModel> model);
  // Waits until the model's calls are answered and its reads have ended, then hands it back.
  // Null when there is no such model; kFailedPrecondition, at once, while sessions lease its slots.
  Result<std::unique_ptr<LoadedModel>> RemoveModel(ModelId model);
  // kFailedPrecondition as RemoveModel would give it now.
  Status CheckUnleased(ModelId model);

  // Loads `keys` and keeps them resident until Unpin; gives how many were not pinned before. On an
  // error none of these is: kNoRoom when a size class could not serve calls any more, kDraining
  // after Stop. Waits for the reads.
  Result<uint32_t> Pin(const std::vector<ExpertKey>& keys);
  // Gives how many were pinned.
  uint32_t Unpin(const std::vector<ExpertKey>& keys);
  // Experts of one model that the session expects soon, those of a layer together. Gives how many
  // were taken: they are resident or will be read ahead if the drive has time.
  uint32_t Hint(SessionId session, const std::vector<ExpertKey>& experts);
  // Quarantined experts may be read again.
  void LiftQuarantine(ModelId model);

  struct View {
    const std::map<ModelId, std::unique_ptr<LoadedModel>>& models;
    std::span<const LaneCounters, kLaneKinds> lanes;  // by LaneKind
    const Device* device = nullptr;                   // null: the CPU's lane is all
    const std::optional<Error>& device_lost;
    const Prefetcher& prefetcher;
    const ResidencyDesk& desk;
    uint32_t queued = 0;
  };
  // Loads of these experts, the hottest first, as many as free slots hold, while calls are served.
  // In the place of an earlier preheat of the model. No effect when the model is not there.
  void StartPreheat(ModelId model, std::vector<ExpertKey> hottest_first);
  [[nodiscard]] PreheatProgress PreheatOf(ModelId model);

  // Calls use at most so many slots a size class from now on; those beyond retire as soon as nobody
  // holds them. More than there are is no effect. kExhausted, kNoRoom when pins or leases need
  // more; kNotFound when the model is being removed, or has no slots there.
  Status LimitSlots(const ModelPool& of, const std::vector<uint32_t>& slots);
  // Slots that have retired are in nobody's use until RestoreSlots.
  SlotUse TakeRetired(const ModelPool& of);
  // Retired slots, with memory again, are used again; this is the model's budget there now.
  void RestoreSlots(const ModelPool& of, const std::vector<SlotRun>& runs, Bytes budget);

  // Runs `visit` on the executor's thread, and waits. False when there is no such model, or it is
  // being removed.
  bool WithModel(ModelId model, const std::function<void(LoadedModel&)>& visit);
  // Runs `visit` on the executor's thread, and waits.
  void Inspect(const std::function<void(const View&)>& visit);

  void OnLoad(LoadDone done) override;
  void OnCopy(const CopyDone& done) override;
  void OnRun(const RunDone& done) override;
  void OnDeviceLost(const Error& why) override;

  // Looks at `source` from now on; there is at most one. An error when no descriptor can be had.
  Status SetSource(CallSource& source);
  // Returns when it does not look any more.
  void ClearSource(CallSource& source);
  // For the source, from Poll.
  Status Take(LayerCall call, LayerDone done) override;

 private:
  friend class ResidencyDesk;

  struct NewCall {
    PendingCall pending;
  };
  struct Landed {
    LoadDone done;
    TimePoint at;
  };
  struct Ran {
    RunDone done;
    TimePoint at;
  };
  // What a router has guessed.
  struct Guessed {
    LayerGuesses guesses;
  };
  // Anything rarer than calls and landings.
  struct Control {
    std::function<void()> run;
  };
  using Message = std::variant<NewCall, Landed, CopyDone, Ran, Guessed, Control>;

  // A wave of one batch's experts, one pinned expert, one that nobody waits for (it comes back from
  // VRAM, or was masked), or one of the desk's transfers.
  static constexpr uint64_t kUnattendedBatch = UINT64_MAX;
  static constexpr uint64_t kTransferBatch = UINT64_MAX - 1;
  struct Wave {
    LoadedModel* model = nullptr;
    SizeClass size_class{};
    uint64_t batch = 0;      // 0: a pin
    uint32_t first_ask = 0;  // into the batch's asks
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
  // An expert that the device computes, or is about to.
  struct DevicePick {
    uint32_t index = 0;
    std::variant<DeviceAddress, const std::byte*> record;
    std::optional<WaveId> in_vram;        // the VRAM ledger's wave
    std::optional<ReadyExpert> in_ram{};  // computed so if the device fails
  };
  // What the device does for a batch.
  struct DevicePart {
    std::vector<PickLane> lanes;  // by expert of the piece; empty: all run on the CPU
    bool judged = false;          // the model's planning is told how long the call took
    std::vector<ReadyExpert> to_push;
    std::map<uint32_t, ReadyExpert> pushed;  // by expert: its copy is under way
    std::vector<DevicePick> to_gpu;
    std::vector<DevicePick> to_zero_copy;
    uint32_t runs = 0;  // under way; they read and write the batch
    std::array<std::chrono::nanoseconds, kLaneKinds> busy{};  // of runs that are done, by LaneKind
  };
  struct ActiveBatch {
    ActiveBatch(std::vector<PendingCall> calls, const LayerGeometry& layer, LoadedModel& of)
        : batch(std::move(calls), layer), model(of) {}
    LayerBatch batch;
    LoadedModel& model;
    TimePoint started;
    std::chrono::nanoseconds computed{0};
    std::chrono::nanoseconds combined{0};
    std::chrono::nanoseconds planned{0};
    TimePoint last_landed;  // of what it had to wait for
    EndedBy ended_by = EndedBy::kCompute;
    bool begun = false;               // a piece is in work
    std::vector<ExpertKey> foreseen;  // what its calls were expected to pick, and do
    std::vector<uint32_t> masked;     // experts of the piece that are left out, and to be read
    std::vector<uint32_t> asks;       // experts that are to be had in RAM, in the order of asking
    uint32_t next_ask = 0;            // the first that no wave asked for yet
    uint32_t first_retry = 0;         // asks from here on: a device did not compute them after all
    uint32_t unfinished = 0;          // experts of the piece that have neither run nor failed
    uint32_t waves = 0;
    std::vector<ReadyExpert> ready;
    std::vector<WaveId> finished_waves;
    DevicePart device;
  };

  // A wave of a VRAM ledger: what a call has there, or one expert that is copied in, for a call or
  // one of the desk's transfers.
  struct VramWave {
    LoadedModel* model = nullptr;
    SizeClass size_class{};
    uint64_t batch = 0;                  // 0: nobody waits for the copy
    std::vector<uint32_t> experts = {};  // of the batch; parallel to the keys
    uint32_t unfinished = 0;
  };
  enum class CopyWay : uint8_t { kIntoVram, kBackToRam };
  struct CopyUnderWay {
    CopyWay way = CopyWay::kIntoVram;
    LoadedModel* model = nullptr;
    SizeClass size_class{};
    ExpertKey key;
    Ticket ticket;                        // of the ledger of the tier that it goes to
    std::optional<SlotIndex> retiring{};  // as WriteBack
  };
  // A victim of VRAM whose slot in RAM is being asked for.
  struct WriteBack {
    ExpertKey key;
    DeviceAddress from{};
    std::optional<SlotIndex> retiring{};  // the slot in VRAM, if it retires
  };
  struct RunUnderWay {
    uint64_t batch = 0;
    LaneKind lane = LaneKind::kGpu;
    std::vector<DevicePick> picks;
  };

  // layer_executor_loop.cc
  void Loop();
  // What has come is taken, ledgers are stepped, one run is computed. False when there is nothing
  // to do until a message comes.
  bool Turn();
  void TakeMessages();
  void PollSource();
  void Rest();
  [[nodiscard]] bool SpinForWork();
  [[nodiscard]] uint32_t Room() const;
  void AnswerEarly();
  [[nodiscard]] std::optional<TimePoint> EarliestDeadline() const;
  void Admit();
  [[nodiscard]] std::deque<PendingCall>::iterator NextCall();
  [[nodiscard]] std::map<uint64_t, ActiveBatch>::iterator NextReady();
  [[nodiscard]] SessionTurns::Time DueOf(const ActiveBatch& active) const;
  void ChargeSessions(ActiveBatch& active, std::chrono::nanoseconds busy);
  void LeavePlay(const LayerCall& call);
  void Begin(std::vector<PendingCall> calls, LoadedModel& model);
  void AdvanceChanged();
  void Advance(uint64_t id, ActiveBatch& active);
  void AskForWaves(uint64_t id, ActiveBatch& active);
  bool ComputeSome();
  [[nodiscard]] bool IsTimeUp() const;
  void Abandon();
  void ReleaseWavesOf(uint64_t batch);
  void FinishExpert(ActiveBatch& active, WaveId id);
  void Answer(ActiveBatch& active);
  void Record(ActiveBatch& active, TimePoint now);
  void ShowTaps(const PendingCall& pending);
  void Reply(PendingCall& pending, Result<LayerOutput> result);
  void Step(LoadedModel& model, SizeClass size_class, const LedgerEvent& event);
  void StartLoad(LoadedModel& model, SizeClass size_class, const StartRead& start);
  void OnLanded(LoadDone done);
  void Foresee(ActiveBatch& active);
  void ReadAhead();
  void Expect(const ExpertKey& key);
  [[nodiscard]] bool IsInVram(const ExpertKey& key) const;
  void StepKey(const ExpertKey& key, const LedgerEvent& event);
  [[nodiscard]] bool DriveHasTime() const;
  [[nodiscard]] bool IsResident(const ExpertKey& key) const;
  void OnGuesses(const LayerGuesses& guesses);
  void OnKeyReady(const KeyReady& ready);
  void OnKeyFailed(LoadedModel& model, const KeyFailed& failed);
  // The two halves of Pin: what it asks for, and the wait for that.
  struct AskedPins {
    Status taken = Ok{};
    std::vector<ExpertKey> keys;
    std::vector<std::future<Status>> landed;  // parallel to `keys`
  };
  AskedPins AskForPins(const std::vector<ExpertKey>& keys);
  Result<uint32_t> AwaitPins(AskedPins asked);
  [[nodiscard]] Status CheckPins(const std::set<ExpertKey>& keys) const;
  static Status CheckPinRoom(const LoadedModel& model, SizeClass size_class, uint32_t wanted);
  std::future<Status> BeginPin(const ExpertKey& key);
  bool ReleasePin(const ExpertKey& key);  // false when it is not pinned
  void ReleaseWaveOf(WaveId id);
  static void NoteHeat(const ActiveBatch& active);
  void ContinuePreheats();
  void ContinuePreheat(LoadedModel& model);
  static void NotePreheatRead(LoadedModel& model, const ExpertKey& key);
  static void CountPreheated(LoadedModel& model, const ExpertKey& key);
  [[nodiscard]] bool Quiet() const;
  [[nodiscard]] bool EndsBy(TimePoint time) EXCLUDES(lifecycle_mu_);
  // What Quiet waits for, in words; empty when there is nothing.
  [[nodiscard]] std::string UnderWay() const;
  Result<std::future<std::unique_ptr<LoadedModel>>> AskForRemoval(ModelId model);
  void RemoveIdleModels();
  void RunOnThread(const std::function<void()>& run) EXCLUDES(lifecycle_mu_);
  void NoteLeasable(const LoadedModel& model) EXCLUDES(leasable_mu_);

  // layer_executor_mask.cc: what a decode leaves out.
  void MaskMisses(ActiveBatch& active);
  void FillMasked(ActiveBatch& active);

  // layer_executor_plan.cc: which lane each expert of a piece runs on.
  [[nodiscard]] bool HasDevice() const { return device_ != nullptr && !device_lost_; }
  void PlanPiece(uint64_t id, ActiveBatch& active);
  void ReadPicks(const ActiveBatch& active);
  void ChooseLanes(ActiveBatch& active);
  void ReserveInVram(uint64_t id, ActiveBatch& active);
  void TellPlanning(ActiveBatch& active, TimePoint now);

  // layer_executor_device.cc and layer_executor_copies.cc: lanes, copies, loss of the device.
  void StepVram(LoadedModel& model, SizeClass size_class, const LedgerEvent& event);
  void FinishVramKey(WaveId id);
  void ReleaseVramWave(WaveId id);
  void ReleaseVramWavesOf(uint64_t batch);
  void BeginCopy(LoadedModel& model, SizeClass size_class, const StartRead& start);
  [[nodiscard]] static bool HasRoomInRam(const ResidencyLedger& ram, const ExpertKey& key);
  [[nodiscard]] static bool MayWriteBack(const LoadedModel& model, SizeClass size_class,
                                         const WriteBack& victim);
  bool BeginWriteBack(LoadedModel& model, SizeClass size_class, const WriteBack& victim);
  void EmptySlot(LoadedModel& model, SizeClass size_class, SlotIndex slot);
  void StepIn(PoolId pool, LoadedModel& model, SizeClass size_class, const LedgerEvent& event);
  bool TakeWriteBack(LoadedModel& model, SizeClass size_class, const StartRead& start);
  void OnCopyDone(const CopyDone& done);
  void OnCopiedIn(const CopyUnderWay& copy, DeviceOutcome outcome);
  void OnWrittenBack(const CopyUnderWay& copy, DeviceOutcome outcome);
  void OnVramReady(const KeyReady& ready);
  void OnVramFailed(const KeyFailed& failed);
  bool TakeForDevice(uint64_t id, ActiveBatch& active, const ReadyExpert& ready);
  void SubmitToDevice();
  void Push(uint64_t id, ActiveBatch& active, const ReadyExpert& ready);
  void SubmitRun(uint64_t id, ActiveBatch& active, LaneKind lane, std::vector<DevicePick> picks);
  void OnRunDone(const Ran& ran);
  void EndAbandoned(uint64_t batch);
  void CountRun(const RunUnderWay& run, ActiveBatch& active, std::chrono::nanoseconds busy);
  void FinishPick(ActiveBatch& active, const DevicePick& pick);
  void FallBack(uint64_t id, ActiveBatch& active, const DevicePick& pick);
  void EndInVram(WaveId id);
  void AfterCpuRun(ActiveBatch& active, size_t count, std::chrono::nanoseconds busy);
  void LetIn(const ActiveBatch& active, uint32_t index);
  void OnLost(const Error& why);

  const Options options_;
  const Clock& clock_;
  spdlog::logger& log_;
  CpuLane& lane_;
  ExpertLoader* loader_ = nullptr;  // set once, before Start
  Device* device_ = nullptr;        // likewise; null: there is none
  Mailbox<Message> mailbox_;
  std::atomic<uint32_t> accepted_{0};  // sequentially consistent with stopping_, see Submit
  std::atomic<bool> stopping_{false};
  std::atomic<TimePoint> abandon_at_{TimePoint::max()};  // set before stopping_, which publishes it
  Mutex lifecycle_mu_;
  ConditionVariable ended_;
  bool running_ GUARDED_BY(lifecycle_mu_) = false;
  bool stepped_ = false;  // const once calls come; true: no thread, tests/sim's SteppedExecutor
  mutable Mutex leasable_mu_;
  std::map<ModelId, Bytes> leasable_ GUARDED_BY(leasable_mu_);

  // The executor thread's own.
  CallSource* source_ = nullptr;
  std::vector<Message> messages_;
  CommandList commands_;
  std::deque<PendingCall> queue_;
  std::map<uint64_t, ActiveBatch> active_;                // by age
  std::unordered_map<SessionId, uint32_t> rows_in_play_;  // of calls in active_; none is 0
  std::unordered_map<WaveId, Wave> waves_;
  std::map<ExpertKey, WaveId> pins_;
  std::vector<ExpertKey> failed_pins_;
  std::map<ModelId, std::unique_ptr<LoadedModel>> models_;
  std::vector<uint64_t> changed_;  // batches to advance
  SessionTurns turns_;
  std::vector<std::shared_ptr<RouteTap>> taps_;
  std::array<LaneCounters, kLaneKinds> lane_counters_;  // by LaneKind
  TimePoint lane_free_since_;                           // the CPU's
  TimePoint landed_at_;  // the read whose end is being told to the ledger
  uint64_t next_batch_ = 1;
  uint64_t next_wave_ = 1;
  std::vector<LaneTask> tasks_;
  std::vector<ExpertKey> no_longer_expected_;
  Prefetcher prefetcher_;
  ResidencyDesk desk_{*this};

  // The executor thread's own, of the device.
  std::optional<Error> device_lost_;
  CommandList vram_commands_;
  std::unordered_map<WaveId, VramWave> vram_waves_;
  std::vector<WaveId> finished_vram_waves_;  // in the step under way
  std::unordered_map<CopyId, CopyUnderWay> copies_;
  std::unordered_map<RunId, RunUnderWay> runs_;
  std::optional<WriteBack> write_back_;        // within the step that asks for its slot
  std::vector<WaveId> finished_unattended_;    // to be released outside of steps
  std::map<uint64_t, ActiveBatch> abandoned_;  // answered; runs still read and write them
  std::vector<uint64_t> device_changed_;       // batches with something for the device
  std::vector<PlanPick> picks_;
  std::vector<LaneCosts::Part> parts_;
  uint64_t next_copy_ = 1;
  uint64_t next_run_ = 1;

  std::jthread thread_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_LAYER_EXECUTOR_H_
