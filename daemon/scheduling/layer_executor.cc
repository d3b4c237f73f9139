#include "daemon/scheduling/layer_executor.h"

#include <pthread.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace moetier {
namespace {

constexpr uint32_t kWavesInPlay = 2;   // of one batch: one computes while the next is read
constexpr uint32_t kLargestWave = 64;  // experts; more would make others wait without a gain
constexpr uint32_t kExpertsARun = 16;  // then messages are looked at again

uint32_t Microseconds(std::chrono::nanoseconds time) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(us, 0, UINT32_MAX));
}

}  // namespace

LayerExecutor::LayerExecutor(const Options& options, const Clock& clock, spdlog::logger& log,
                             CpuLane& lane)
    : options_(options),
      clock_(clock),
      log_(log),
      lane_(lane),
      prefetcher_(
          options.prefetch, [this](const ExpertKey& key) { return IsResident(key); },
          [this](LayerGuesses guesses) { mailbox_.Send(Guessed{std::move(guesses)}); }) {}

LayerExecutor::~LayerExecutor() { Stop(); }

void LayerExecutor::Start() {
  {
    MutexLock lock(lifecycle_mu_);
    running_ = true;
  }
  thread_ = std::jthread([this] {
    pthread_setname_np(pthread_self(), "executor");
    Loop();
  });
}

Status LayerExecutor::Submit(LayerCall call, LayerDone done) {
  // Counted before `stopping_` is read: the loop ends only when it has seen both stop and zero.
  const uint32_t waiting = accepted_.fetch_add(1);
  if (stopping_.load()) {
    accepted_.fetch_sub(1);
    return Error{ErrorCode::kUnavailable, Reason::kDraining, "the daemon is shutting down"};
  }
  if (waiting >= options_.max_queued_calls) {
    accepted_.fetch_sub(1);
    return Error{ErrorCode::kExhausted, Reason::kQuota,
                 fmt::format("{} calls wait already (limits.queue); send fewer at once", waiting)};
  }
  mailbox_.Send(NewCall{PendingCall{std::move(call), std::move(done), {}, {}}});
  return Ok{};
}

void LayerExecutor::EndSession(SessionId session) {
  mailbox_.Send(Control{[this, session] {
    for (PendingCall& pending : queue_) {
      if (pending.call.session == session) pending.call.control->cancelled.store(true);
    }
    prefetcher_.EndSession(session, no_longer_expected_);
    desk_.EndSession(session);
  }});
}

bool LayerExecutor::AtDesk(std::function<void(ResidencyDesk&)> call) {
  MutexLock lock(lifecycle_mu_);
  if (!running_) return false;
  mailbox_.Send(Control{[this, call = std::move(call)] { call(desk_); }});
  return true;
}

void LayerExecutor::LiftQuarantine(ModelId id) {
  RunOnThread([&] {
    const auto found = models_.find(id);
    if (found == models_.end()) return;
    LoadedModel& model = *found->second;
    for (const auto& [key, error] : std::exchange(model.quarantine, {})) {
      const LayerGeometry* layer = model.geometry->Find(key.layer);
      Step(model, layer->size_class, moetier::LiftQuarantine{.key = key});
    }
  });
}

void LayerExecutor::Inspect(const std::function<void(const View&)>& visit) {
  RunOnThread([&] {
    visit({.models = models_,
           .lanes = lane_counters_,
           .device = device_,
           .device_lost = device_lost_,
           .prefetcher = prefetcher_,
           .desk = desk_,
           .queued = static_cast<uint32_t>(queue_.size())});
  });
}

void LayerExecutor::OnLoad(LoadDone done) { mailbox_.Send(Landed{std::move(done), clock_.Now()}); }

void LayerExecutor::RunOnThread(const std::function<void()>& run) {
  // Shared: the executor may still be in set_value when the wait is over.
  const auto ran = std::make_shared<std::promise<void>>();
  {
    MutexLock lock(lifecycle_mu_);
    if (!running_) {
      run();
      if (!stepped_) RemoveIdleModels();  // no loop does it any more
      return;
    }
    mailbox_.Send(Control{[&run, ran] {
      run();
      ran->set_value();
    }});
  }
  ran->get_future().wait();
}

void LayerExecutor::AnswerEarly() {
  const TimePoint now = clock_.Now();
  for (auto it = queue_.begin(); it != queue_.end();) {
    PendingCall& pending = *it;
    if (pending.call.control && pending.call.control->cancelled.load()) {
      Reply(pending, Error{ErrorCode::kCancelled, Reason::kCancelled, "cancelled before it began"});
    } else if (pending.call.deadline && *pending.call.deadline <= now) {
      Reply(pending, Error{ErrorCode::kDeadlineExceeded, Reason::kDeadline,
                           "its time was up before it began; the daemon is behind"});
    } else {
      ++it;
      continue;
    }
    it = queue_.erase(it);
  }
}

std::optional<TimePoint> LayerExecutor::EarliestDeadline() const {
  std::optional<TimePoint> earliest;
  const TimePoint abandon_at = abandon_at_.load();
  const bool has_calls = !queue_.empty() || !active_.empty();
  if (stopping_.load() && has_calls && abandon_at != TimePoint::max()) earliest = abandon_at;
  if (const auto due = desk_.EarliestDeadline(); due && (!earliest || *due < *earliest)) {
    earliest = due;
  }
  for (const PendingCall& pending : queue_) {
    if (pending.call.deadline && (!earliest || *pending.call.deadline < *earliest)) {
      earliest = pending.call.deadline;
    }
  }
  return earliest;
}

void LayerExecutor::Admit() {
  while (true) {
    const auto next = NextCall();
    if (next == queue_.end()) return;
    std::vector<PendingCall> calls;
    calls.push_back(std::move(*next));
    queue_.erase(next);
    const ModelId model_id = calls.front().call.model;
    const LayerIndex layer = calls.front().call.layer;
    uint32_t rows = calls.front().call.rows;
    for (auto it = queue_.begin(); it != queue_.end() && rows < LayerBatch::kPieceRows;) {
      const bool joins = it->call.model == model_id && it->call.layer == layer &&
                         it->call.forced_lane == calls.front().call.forced_lane &&
                         rows + it->call.rows <= LayerBatch::kPieceRows;
      if (!joins) {
        ++it;
        continue;
      }
      rows += it->call.rows;
      calls.push_back(std::move(*it));
      it = queue_.erase(it);
    }
    Begin(std::move(calls), *models_.at(model_id));
  }
}

void LayerExecutor::Begin(std::vector<PendingCall> calls, LoadedModel& model) {
  const LayerGeometry* layer = model.geometry->Find(calls.front().call.layer);
  MOE_CHECK(layer != nullptr, "blk.{} passed validation", Raw(calls.front().call.layer));
  const uint64_t id = next_batch_++;
  const auto [it, inserted] = active_.try_emplace(id, std::move(calls), *layer, model);
  ActiveBatch& active = it->second;
  active.started = clock_.Now();
  for (PendingCall& pending : active.batch.calls()) {
    pending.output.timing.queue_us = Microseconds(active.started - pending.call.received);
    model.heat->NextRequest();
    rows_in_play_[pending.call.session] += pending.call.rows;
  }
  Foresee(active);
  changed_.push_back(id);
}

void LayerExecutor::AdvanceChanged() {
  for (const WaveId wave : std::exchange(finished_unattended_, {})) ReleaseWaveOf(wave);
  while (!changed_.empty()) {
    const uint64_t id = changed_.back();
    changed_.pop_back();
    if (const auto it = active_.find(id); it != active_.end()) Advance(id, it->second);
  }
}

void LayerExecutor::Advance(uint64_t id, ActiveBatch& active) {
  // The end of one may grant another that is finished at once, since its experts are quarantined.
  while (!active.finished_waves.empty()) {
    const WaveId wave = active.finished_waves.back();
    active.finished_waves.pop_back();
    ReleaseWaveOf(wave);
    --active.waves;
  }
  if (active.unfinished == 0) {
    if (active.begun) {
      const TimePoint begin = clock_.Now();
      active.batch.CombinePiece();
      active.combined += clock_.Now() - begin;
    }
    active.begun = active.batch.NextPiece();
    if (!active.begun) {
      Answer(active);
      active_.erase(id);
      return;
    }
    NoteHeat(active);
    active.unfinished = static_cast<uint32_t>(active.batch.experts().size());
    active.asks.resize(active.unfinished);
    std::iota(active.asks.begin(), active.asks.end(), 0);
    active.next_ask = 0;
    if (active.model.misses == MissRule::kMask) MaskMisses(active);
    if (HasDevice()) PlanPiece(id, active);
    active.first_retry = static_cast<uint32_t>(active.asks.size());
  }
  AskForWaves(id, active);
  FillMasked(active);
}

void LayerExecutor::AskForWaves(uint64_t id, ActiveBatch& active) {
  const std::span<const LayerBatch::PickedExpert> experts = active.batch.experts();
  LoadedModel& model = active.model;
  const SizeClass size_class = active.batch.geometry().size_class;
  const auto expert = [&](uint32_t ask) -> const LayerBatch::PickedExpert& {
    return experts[active.asks[ask]];
  };
  while (active.waves < kWavesInPlay && active.next_ask < active.asks.size()) {
    // Half of what calls may use, so that two waves fit; one slot is enough to make progress.
    const uint32_t usable = model.ledgers[Raw(size_class)]->slot_count() -
                            model.pinned[Raw(size_class)] - model.kept_in_ram[Raw(size_class)].kept;
    const uint32_t largest = std::clamp<uint32_t>(usable / kWavesInPlay, 1, kLargestWave);
    const Admission admission = expert(active.next_ask).admission;
    uint32_t count = 1;
    while (count < largest && active.next_ask + count < active.asks.size() &&
           expert(active.next_ask + count).admission == admission) {
      ++count;
    }
    const WaveId wave_id{next_wave_++};
    Wave& wave = waves_[wave_id];
    wave = {.model = &model,
            .size_class = size_class,
            .batch = id,
            .first_ask = active.next_ask,
            .unfinished = count,
            .keys = {},
            .heat = {},
            .pinned = {}};
    for (uint32_t i = 0; i < count; ++i) {
      wave.keys.push_back(expert(active.next_ask + i).key);
      wave.heat.push_back(expert(active.next_ask + i).heat);
    }
    active.next_ask += count;
    ++active.waves;
    Step(model, size_class,
         ReserveWave{.wave = wave_id,
                     .keys = wave.keys,
                     .admission = admission,
                     .tenure = Tenure::kCall,
                     .heat = wave.heat});
  }
}

bool LayerExecutor::ComputeSome() {
  const auto next = NextReady();
  if (next == active_.end()) return false;
  ActiveBatch& active = next->second;
  const size_t count = std::min<size_t>(active.ready.size(), kExpertsARun);
  const LayerGeometry& layer = active.batch.geometry();
  LaneCounters& counters = lane_counters_[Raw(LaneKind::kCpu)];
  tasks_.clear();
  for (size_t i = 0; i < count; ++i) {
    const ReadyExpert& ready = active.ready[i];
    tasks_.push_back(active.batch.Task(
        ready.index, active.model.arena->Slot(layer.size_class, ready.slot).data()));
    counters.rows += tasks_.back().tokens.size();
  }
  const TimePoint begin = clock_.Now();
  active.ended_by = active.last_landed > lane_free_since_ ? EndedBy::kRead : EndedBy::kCompute;
  lane_.Run(tasks_);
  lane_free_since_ = clock_.Now();
  const auto busy = lane_free_since_ - begin;
  active.computed += busy;
  ChargeSessions(active, busy);
  counters.busy += busy;
  counters.experts += count;
  counters.bytes += count * layer.record.bytes;
  if (active.model.planning) AfterCpuRun(active, count, busy);
  for (size_t i = 0; i < count; ++i) FinishExpert(active, active.ready[i].wave);
  active.ready.erase(active.ready.begin(),
                     active.ready.begin() + static_cast<std::ptrdiff_t>(count));
  changed_.push_back(next->first);
  return true;
}

void LayerExecutor::FinishExpert(ActiveBatch& active, WaveId id) {
  --active.unfinished;
  Wave& wave = waves_.at(id);
  if (--wave.unfinished == 0) active.finished_waves.push_back(id);
}

void LayerExecutor::Answer(ActiveBatch& active) {
  const TimePoint now = clock_.Now();
  Record(active, now);
  TellPlanning(active, now);
  prefetcher_.CallEnds(active.foreseen, no_longer_expected_);
  for (PendingCall& pending : active.batch.calls()) {
    CallTiming& timing = pending.output.timing;
    timing.plan_us = Microseconds(active.planned);
    timing.compute_us = Microseconds(active.computed);
    timing.combine_us = Microseconds(active.combined);
    timing.total_us = Microseconds(now - pending.call.received);
    timing.read_wait_us =
        Microseconds(now - active.started - active.planned - active.computed - active.combined);
    LeavePlay(pending.call);
    LayerOutput& output = pending.output;
    if (!active.model.planning) {
      output.lanes = {{.lane = 0, .experts = output.hits + output.in_flight + output.misses}};
    }
    if (pending.fault) {
      Reply(pending, std::move(*pending.fault));
    } else {
      ShowTaps(pending);
      Reply(pending, std::move(pending.output));
    }
  }
}

void LayerExecutor::Reply(PendingCall& pending, Result<LayerOutput> result) {
  pending.done(std::move(result));
  accepted_.fetch_sub(1);
}

bool LayerExecutor::Quiet() const {
  return queue_.empty() && active_.empty() &&
         std::all_of(models_.begin(), models_.end(),
                     [](const auto& entry) { return entry.second->AtRest(); });
}

}  // namespace moetier
