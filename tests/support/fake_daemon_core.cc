#include "tests/support/fake_daemon_core.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace moetier {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

Result<LayerOutput> Compute(const LayerCall& call) {
  if (call.control->cancelled.load(std::memory_order_relaxed)) {
    return Error{ErrorCode::kCancelled, Reason::kCancelled, "cancelled before it started"};
  }
  if (call.deadline && *call.deadline <= std::chrono::steady_clock::now()) {
    return Error{ErrorCode::kDeadlineExceeded, Reason::kDeadline, "timeout_us passed in the queue"};
  }
  LayerOutput result;
  const size_t hidden = call.hidden.size() / call.rows;
  result.output.assign(call.hidden.size(), 0.0f);
  for (size_t row = 0; row < call.rows; ++row) {
    for (size_t pick = row * call.top_k; pick < (row + 1) * call.top_k; ++pick) {
      const float scale = call.weights[pick] * static_cast<float>(call.experts[pick] + 1);
      for (size_t column = row * hidden; column < (row + 1) * hidden; ++column) {
        result.output[column] += scale * call.hidden[column];
      }
    }
  }
  result.hits = call.top_k;
  result.lanes.push_back({.lane = 0, .experts = call.top_k});
  result.timing.total_us = 1;
  return result;
}

}  // namespace

FakeDaemonCore::FakeDaemonCore() {
  LaneSnapshot& lane = snapshot_.lanes.emplace_back();
  lane.name = "cpu";
  PoolSnapshot& pool = snapshot_.pools.emplace_back();
  pool.name = "ram0";
  AddModel(SmallModel());
  thread_ = std::thread([this] { Loop(); });
}

FakeDaemonCore::~FakeDaemonCore() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void FakeDaemonCore::Loop() {
  for (;;) {
    std::function<void()> task;
    {
      const MutexLock lock(mu_);
      while (tasks_.empty() && !stopping_) changed_.wait(mu_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

bool FakeDaemonCore::WaitUntil(const std::function<bool()>& reached) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!reached()) {
    if (changed_.wait_until(mu_, deadline) == std::cv_status::timeout) return reached();
  }
  return true;
}

void FakeDaemonCore::Post(std::function<void()> task) {
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void FakeDaemonCore::Start(Held& held) {
  if (!held.done) return;
  Post([this, call = held.call, masked = masked_, done = std::exchange(held.done, nullptr)] {
    Result<LayerOutput> output = Compute(call);
    if (output) {
      output->masked = masked;
      const MutexLock lock(mu_);
      std::erase_if(taps_, [&](const std::shared_ptr<RouteTap>& tap) {
        return tap->OnAnswered(call, *output) == RouteTap::Next::kNoMore;
      });
    }
    done(std::move(output));
    const MutexLock lock(mu_);
    --unanswered_;
    changed_.notify_all();
  });
}

void FakeDaemonCore::HoldCalls() {
  const MutexLock lock(mu_);
  hold_ = true;
}

bool FakeDaemonCore::WaitForHeld(size_t count) {
  const MutexLock lock(mu_);
  return WaitUntil([&]() REQUIRES(mu_) { return held_.size() >= count; });
}

size_t FakeDaemonCore::held() const {
  const MutexLock lock(mu_);
  return held_.size();
}

LayerCall FakeDaemonCore::HeldCall(size_t index) const {
  const MutexLock lock(mu_);
  return held_.at(index).call;
}

void FakeDaemonCore::StartHeld(size_t index) {
  const MutexLock lock(mu_);
  Start(held_.at(index));
}

void FakeDaemonCore::FailHeld(size_t index, Error error) {
  const MutexLock lock(mu_);
  Post([this, error = std::move(error), done = std::exchange(held_.at(index).done, nullptr)] {
    done(error);
    const MutexLock inner(mu_);
    --unanswered_;
    changed_.notify_all();
  });
}

bool FakeDaemonCore::WaitForCancel(size_t index) {
  const std::shared_ptr<CallControl> control = HeldCall(index).control;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!control->cancelled.load(std::memory_order_relaxed)) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();  // the transport sets a flag and tells nobody
  }
  return true;
}

void FakeDaemonCore::set_masked(std::vector<MaskedPick> masked) {
  const MutexLock lock(mu_);
  masked_ = std::move(masked);
}

void FakeDaemonCore::RefuseSubmits(Error error) {
  const MutexLock lock(mu_);
  refusal_ = std::move(error);
}

void FakeDaemonCore::AddModel(ModelInfo model) {
  const MutexLock lock(mu_);
  const ModelId id = model.id;
  models_.insert_or_assign(id, std::move(model));
}

void FakeDaemonCore::FailNextAdminCall(Error error) {
  const MutexLock lock(mu_);
  admin_failure_ = std::move(error);
}

void FakeDaemonCore::HoldWork() {
  const MutexLock lock(mu_);
  hold_work_ = true;
}

void FakeDaemonCore::ReleaseWork() {
  const MutexLock lock(mu_);
  hold_work_ = false;
  changed_.notify_all();
}

void FakeDaemonCore::WaitForRelease() {
  const MutexLock lock(mu_);
  while (hold_work_) changed_.wait(mu_);
}

bool FakeDaemonCore::WaitForEndedSession(SessionId session) {
  const MutexLock lock(mu_);
  return WaitUntil(
      [&]() REQUIRES(mu_) { return std::ranges::find(ended_, session) != ended_.end(); });
}

void FakeDaemonCore::FailDrain(std::optional<Error> held_up) {
  const MutexLock lock(mu_);
  held_up_ = std::move(held_up);
}

void FakeDaemonCore::HoldDrain() {
  const MutexLock lock(mu_);
  drain_waits_ = true;
}

bool FakeDaemonCore::WaitForDrain() {
  const MutexLock lock(mu_);
  return WaitUntil([&]() REQUIRES(mu_) { return draining_; });
}

std::vector<std::string> FakeDaemonCore::admin_calls() const {
  const MutexLock lock(mu_);
  return admin_calls_;
}

size_t FakeDaemonCore::submitted() const {
  const MutexLock lock(mu_);
  return submitted_;
}

Status FakeDaemonCore::Submit(LayerCall call, LayerDone done) {
  const MutexLock lock(mu_);
  ++submitted_;
  if (refusal_) return *refusal_;
  if (draining_) return Error{ErrorCode::kUnavailable, Reason::kDraining, "draining"};
  ++unanswered_;
  held_.push_back({std::move(call), std::move(done)});
  if (!hold_) Start(held_.back());
  changed_.notify_all();
  return Ok{};
}

std::optional<ModelInfo> FakeDaemonCore::FindModel(std::string_view name) const {
  const MutexLock lock(mu_);
  for (const auto& [id, model] : models_) {
    if (model.name == name) return model;
  }
  return std::nullopt;
}

std::optional<ModelInfo> FakeDaemonCore::ModelById(ModelId id) const {
  const MutexLock lock(mu_);
  const auto found = models_.find(id);
  return found == models_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<ModelInfo> FakeDaemonCore::ListModels() const {
  const MutexLock lock(mu_);
  std::vector<ModelInfo> all;
  for (const auto& [id, model] : models_) all.push_back(model);
  return all;
}

std::optional<ModelInfo> FakeDaemonCore::HoldModel(ModelId id) {
  std::optional<ModelInfo> model = ModelById(id);
  return model && model->state == ModelState::kReady ? model : std::nullopt;
}

Status FakeDaemonCore::AdminCall(std::string what) {
  const MutexLock lock(mu_);
  admin_calls_.push_back(std::move(what));
  if (admin_failure_) return *std::exchange(admin_failure_, std::nullopt);
  return Ok{};
}

Status FakeDaemonCore::LoadModel(const LoadSpec& spec, const ProgressListener& listener) {
  RETURN_IF_ERROR(AdminCall(fmt::format("load {} {} {}", spec.name, spec.directory,
                                        spec.ram_bytes.value_or(Bytes(0)).count())));
  WaitForRelease();
  ModelProgress progress;
  progress.stage = "arena";
  progress.bytes_done = progress.bytes_total = Bytes(4096);
  listener(progress);
  AddModel(SmallModel(spec.name, 7));
  return Ok{};
}

Status FakeDaemonCore::UnloadModel(std::string_view name) {
  RETURN_IF_ERROR(AdminCall(fmt::format("unload {}", name)));
  const MutexLock lock(mu_);
  std::erase_if(models_, [name](const auto& entry) { return entry.second.name == name; });
  return Ok{};
}

Status FakeDaemonCore::VerifyModel(std::string_view name, const ProgressListener& listener) {
  RETURN_IF_ERROR(AdminCall(fmt::format("verify {}", name)));
  WaitForRelease();
  ModelProgress progress;
  progress.stage = "verify";
  progress.records_done = progress.records_total = 16;
  progress.faulty.push_back({.key = {ModelId{1}, LayerIndex{3}, ExpertIndex{2}},
                             .file = "/stores/small/records.0",
                             .offset = 8192,
                             .reason = Reason::kChecksum,
                             .message = "checksum differs"});
  if (listener(progress) == GoOn::kNo) {
    return Error{ErrorCode::kCancelled, Reason::kCancelled, "verify stopped"};
  }
  return Ok{};
}

Result<uint32_t> FakeDaemonCore::Pin(ModelId model, LayerIndex layer,
                                     std::span<const ExpertIndex> experts) {
  WaitForRelease();
  RETURN_IF_ERROR(AdminCall(fmt::format("pin {} {} {}", Raw(model), Raw(layer), experts.size())));
  return static_cast<uint32_t>(experts.size());
}

Result<uint32_t> FakeDaemonCore::Unpin(ModelId model, LayerIndex layer,
                                       std::span<const ExpertIndex> experts) {
  RETURN_IF_ERROR(AdminCall(fmt::format("unpin {} {} {}", Raw(model), Raw(layer), experts.size())));
  return 0u;
}

uint32_t FakeDaemonCore::Hint(SessionId /*session*/, const std::vector<ExpertKey>& experts) {
  const MutexLock lock(mu_);
  hinted_.insert(hinted_.end(), experts.begin(), experts.end());
  return static_cast<uint32_t>(experts.size());
}

std::vector<ExpertKey> FakeDaemonCore::hinted() const {
  const MutexLock lock(mu_);
  return hinted_;
}

Result<ModelHeat> FakeDaemonCore::GetHeat(ModelId /*model*/) const {
  const MutexLock lock(mu_);
  return heat_;
}

Status FakeDaemonCore::SetHeat(ModelId model, const ModelHeat& heat) {
  RETURN_IF_ERROR(AdminCall(fmt::format("set heat {} {}", Raw(model), heat.layers.size())));
  const MutexLock lock(mu_);
  heat_ = heat;
  return Ok{};
}

Status FakeDaemonCore::AwaitPreheat(ModelId /*model*/, const ProgressListener& listener) {
  ModelProgress progress;
  progress.stage = "preheat";
  progress.records_done = progress.records_total = 4;
  listener(progress);
  return Ok{};
}

Result<Bytes> FakeDaemonCore::SetBudget(const ModelPool& of, Bytes bytes,
                                        std::optional<std::chrono::seconds> hold) {
  RETURN_IF_ERROR(AdminCall(fmt::format("budget {} in {} {} {}", Raw(of.model), Raw(of.pool),
                                        bytes.count(), hold ? hold->count() : 0)));
  return bytes;
}

Result<BudgetLoan> FakeDaemonCore::LendBudget(const ModelPool& of, Bytes less,
                                              std::chrono::seconds hold) {
  RETURN_IF_ERROR(AdminCall(
      fmt::format("lend {} in {} {} {}", Raw(of.model), Raw(of.pool), less.count(), hold.count())));
  return BudgetLoan{.in_force = 1_MiB - less, .original = 1_MiB};
}

StatusSnapshot FakeDaemonCore::Snapshot() const { return snapshot_; }

void FakeDaemonCore::AddRouteTap(std::shared_ptr<RouteTap> tap) {
  const MutexLock lock(mu_);
  taps_.push_back(std::move(tap));
}

Status FakeDaemonCore::AddCallSource(CallSource& /*source*/) {
  return Error{ErrorCode::kUnimplemented, Reason::kNotYet, "the fake core polls no source"};
}

void FakeDaemonCore::RemoveCallSource(CallSource& /*source*/) {}

void FakeDaemonCore::SessionEnded(SessionId session) {
  residency_.EndSession(session);
  const MutexLock lock(mu_);
  ended_.push_back(session);
  for (Held& held : held_) {
    if (held.call.session == session) {
      held.call.control->cancelled.store(true, std::memory_order_relaxed);
      Start(held);
    }
  }
  changed_.notify_all();
}

Status FakeDaemonCore::Drain(TimePoint /*deadline*/) {
  residency_.DrainAll();
  const MutexLock lock(mu_);
  draining_ = true;
  changed_.notify_all();
  if (!drain_waits_) {
    for (Held& held : held_) Start(held);
  }
  WaitUntil([&]() REQUIRES(mu_) { return unanswered_ == 0; });
  if (held_up_) return *held_up_;
  return Ok{};
}

}  // namespace moetier
