#include "daemon/scheduling/layer_executor.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace moetier {
namespace {

constexpr uint32_t kWavesInPlay = 2;   // of one batch: one computes while the next is read
constexpr uint32_t kLargestWave = 64;  // experts; more would make others wait without a gain
constexpr uint32_t kExpertsARun = 16;  // then messages are looked at again
// Rows of one session in play at a time, but for one larger call: enough to keep reads and kernels
// busy, and little enough that another session's call is soon begun.
constexpr uint32_t kSessionRows = 8 * LayerBatch::kPieceRows;

uint32_t Microseconds(std::chrono::nanoseconds time) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(us, 0, UINT32_MAX));
}

}  // namespace

LayerExecutor::LayerExecutor(const Options& options, const Clock& clock, spdlog::logger& log,
                             CpuLane& lane)
    : options_(options), clock_(clock), log_(log), lane_(lane) {}

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

void LayerExecutor::Stop(std::optional<TimePoint> deadline) {
  if (deadline) abandon_at_.store(*deadline);
  stopping_.store(true);
  mailbox_.Send(Control{[] {}});
  if (thread_.joinable()) thread_.join();
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
  }});
}

void LayerExecutor::AddModel(std::unique_ptr<LoadedModel> model) {
  RunOnThread([&] {
    const ModelId id = model->id;
    const bool inserted = models_.emplace(id, std::move(model)).second;
    MOE_CHECK(inserted, "model {} is there already", Raw(id));
  });
}

std::unique_ptr<LoadedModel> LayerExecutor::RemoveModel(ModelId model) {
  auto removed = std::make_shared<std::promise<std::unique_ptr<LoadedModel>>>();
  std::future<std::unique_ptr<LoadedModel>> done = removed->get_future();
  RunOnThread([&] {
    const auto found = models_.find(model);
    if (found == models_.end()) return removed->set_value(nullptr);
    std::vector<ExpertKey> pinned;
    for (const auto& [key, wave] : pins_) {
      if (key.model == model) pinned.push_back(key);
    }
    for (const ExpertKey& key : pinned) ReleasePin(key);
    found->second->removed = removed;
  });
  return done.get();
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
           .lane = lane_counters_,
           .queued = static_cast<uint32_t>(queue_.size())});
  });
}

bool LayerExecutor::WithModel(ModelId id, const std::function<void(LoadedModel&)>& visit) {
  bool visited = false;
  RunOnThread([&] {
    const auto found = models_.find(id);
    if (found == models_.end() || found->second->removed) return;
    visit(*found->second);
    visited = true;
  });
  return visited;
}

void LayerExecutor::OnLoad(LoadDone done) { mailbox_.Send(Landed{std::move(done)}); }

void LayerExecutor::RunOnThread(const std::function<void()>& run) {
  std::promise<void> ran;
  {
    MutexLock lock(lifecycle_mu_);
    if (!running_) {
      run();
      return RemoveIdleModels();  // no loop does it any more
    }
    mailbox_.Send(Control{[&] {
      run();
      ran.set_value();
    }});
  }
  ran.get_future().wait();
}

void LayerExecutor::Loop() {
  while (true) {
    TakeMessages();
    PollSource();
    if (IsTimeUp()) Abandon();
    AnswerEarly();
    Admit();
    AdvanceChanged();
    ContinuePreheats();
    if (ComputeSome()) continue;
    RemoveIdleModels();
    if (stopping_.load() && accepted_.load() == 0 && Quiet()) break;
    Rest();
  }
  MutexLock lock(lifecycle_mu_);  // whoever sent a message before this is still served
  running_ = false;
  TakeMessages();
  RemoveIdleModels();
}

void LayerExecutor::TakeMessages() {
  mailbox_.Drain(messages_);
  for (Message& message : messages_) {
    if (auto* call = std::get_if<NewCall>(&message)) {
      queue_.push_back(std::move(call->pending));
    } else if (auto* landed = std::get_if<Landed>(&message)) {
      OnLanded(std::move(landed->done));
    } else {
      std::get<Control>(message).run();
    }
  }
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
  for (const PendingCall& pending : queue_) {
    if (pending.call.deadline && (!earliest || *pending.call.deadline < *earliest)) {
      earliest = pending.call.deadline;
    }
  }
  return earliest;
}

void LayerExecutor::Admit() {
  while (active_.size() < options_.max_active_batches) {
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

// The oldest call of the session that has the fewest rows in play; none when all have their share.
std::deque<PendingCall>::iterator LayerExecutor::NextCall() {
  auto chosen = queue_.end();
  uint32_t fewest = kSessionRows;
  for (auto it = queue_.begin(); it != queue_.end() && fewest > 0; ++it) {
    const auto session = rows_in_play_.find(it->call.session);
    const uint32_t rows = session == rows_in_play_.end() ? 0 : session->second;
    if (rows >= fewest) continue;
    chosen = it;
    fewest = rows;
  }
  return chosen;
}

void LayerExecutor::LeavePlay(const LayerCall& call) {
  const auto session = rows_in_play_.find(call.session);
  session->second -= call.rows;
  if (session->second == 0) rows_in_play_.erase(session);
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
  changed_.push_back(id);
}

void LayerExecutor::AdvanceChanged() {
  while (!changed_.empty()) {
    const uint64_t id = changed_.back();
    changed_.pop_back();
    if (const auto it = active_.find(id); it != active_.end()) Advance(id, it->second);
  }
}

void LayerExecutor::Advance(uint64_t id, ActiveBatch& active) {
  for (const WaveId wave : std::exchange(active.finished_waves, {})) {
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
    active.next_expert = 0;
    active.unfinished = static_cast<uint32_t>(active.batch.experts().size());
  }
  AskForWaves(id, active);
}

void LayerExecutor::NoteHeat(const ActiveBatch& active) {
  for (const LayerBatch::PickedExpert& expert : active.batch.experts()) {
    active.model.heat->Add(expert.key.layer, expert.key.expert, expert.heat);
  }
}

void LayerExecutor::AskForWaves(uint64_t id, ActiveBatch& active) {
  const std::span<const LayerBatch::PickedExpert> experts = active.batch.experts();
  LoadedModel& model = active.model;
  const SizeClass size_class = active.batch.geometry().size_class;
  while (active.waves < kWavesInPlay && active.next_expert < experts.size()) {
    // Half of what calls may use, so that two waves fit; one slot is enough to make progress.
    const uint32_t usable =
        model.ledgers[Raw(size_class)]->slot_count() - model.pinned[Raw(size_class)];
    const uint32_t largest = std::clamp<uint32_t>(usable / kWavesInPlay, 1, kLargestWave);
    const Admission admission = experts[active.next_expert].admission;
    uint32_t count = 1;
    while (count < largest && active.next_expert + count < experts.size() &&
           experts[active.next_expert + count].admission == admission) {
      ++count;
    }
    const WaveId wave_id{next_wave_++};
    Wave& wave = waves_[wave_id];
    wave = {.model = &model,
            .size_class = size_class,
            .batch = id,
            .first_expert = active.next_expert,
            .unfinished = count,
            .keys = {},
            .heat = {},
            .pinned = {}};
    for (uint32_t i = 0; i < count; ++i) {
      wave.keys.push_back(experts[active.next_expert + i].key);
      wave.heat.push_back(experts[active.next_expert + i].heat);
    }
    active.next_expert += count;
    ++active.waves;
    Step(model, size_class,
         ReserveWave{.wave = wave_id,
                     .keys = wave.keys,
                     .admission = admission,
                     .tenure = Tenure::kCall,
                     .heat = wave.heat});
  }
}

// Batches take turns: a long one does not hold up those that came after it.
bool LayerExecutor::ComputeSome() {
  for (size_t looked_at = 0; looked_at < active_.size(); ++looked_at) {
    auto it = active_.upper_bound(last_served_);
    if (it == active_.end()) it = active_.begin();
    auto& [id, active] = *it;
    last_served_ = id;
    if (active.ready.empty()) continue;
    const size_t count = std::min<size_t>(active.ready.size(), kExpertsARun);
    const LayerGeometry& layer = active.batch.geometry();
    tasks_.clear();
    for (size_t i = 0; i < count; ++i) {
      const ReadyExpert& ready = active.ready[i];
      tasks_.push_back(active.batch.Task(
          ready.index, active.model.arena->Slot(layer.size_class, ready.slot).data()));
      lane_counters_.rows += tasks_.back().tokens.size();
    }
    const TimePoint begin = clock_.Now();
    lane_.Run(tasks_);
    const auto busy = clock_.Now() - begin;
    active.computed += busy;
    lane_counters_.busy += busy;
    lane_counters_.experts += count;
    lane_counters_.bytes += count * layer.record.bytes;
    for (size_t i = 0; i < count; ++i) FinishExpert(active, active.ready[i].wave);
    active.ready.erase(active.ready.begin(),
                       active.ready.begin() + static_cast<std::ptrdiff_t>(count));
    changed_.push_back(id);
    return true;
  }
  return false;
}

void LayerExecutor::FinishExpert(ActiveBatch& active, WaveId id) {
  --active.unfinished;
  Wave& wave = waves_.at(id);
  if (--wave.unfinished == 0) active.finished_waves.push_back(id);
}

void LayerExecutor::Answer(ActiveBatch& active) {
  const TimePoint now = clock_.Now();
  for (PendingCall& pending : active.batch.calls()) {
    CallTiming& timing = pending.output.timing;
    timing.compute_us = Microseconds(active.computed);
    timing.combine_us = Microseconds(active.combined);
    timing.total_us = Microseconds(now - pending.call.received);
    timing.read_wait_us = Microseconds(now - active.started - active.computed - active.combined);
    LeavePlay(pending.call);
    const LayerOutput& output = pending.output;
    pending.output.lanes = {{.lane = 0, .experts = output.hits + output.in_flight + output.misses}};
    if (pending.fault) {
      Reply(pending, std::move(*pending.fault));
    } else {
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
                     [](const auto& entry) { return entry.second->reads_in_flight == 0; });
}

void LayerExecutor::RemoveIdleModels() {
  for (const ExpertKey& key : std::exchange(failed_pins_, {})) ReleasePin(key);
  for (auto it = models_.begin(); it != models_.end();) {
    LoadedModel& model = *it->second;
    const bool idle =
        model.reads_in_flight == 0 &&
        std::none_of(queue_.begin(), queue_.end(),
                     [&](const PendingCall& p) { return p.call.model == model.id; }) &&
        std::none_of(active_.begin(), active_.end(),
                     [&](const auto& entry) { return &entry.second.model == &model; });
    if (model.removed && idle) {
      const auto removed = model.removed;
      removed->set_value(std::move(it->second));
      it = models_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace moetier
