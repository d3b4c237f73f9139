#include "tiers/device/device_queues.h"

#include <pthread.h>

#include <utility>

namespace moetier {

DeviceQueues::DeviceQueues(Options options, const Clock& clock, DeviceWork& work)
    : options_(std::move(options)), clock_(clock), work_(work) {}

DeviceQueues::~DeviceQueues() { Stop(); }

void DeviceQueues::Start(DeviceListener& listener) {
  listener_ = &listener;
  const auto start = [this](const char* queue, auto loop) {
    const std::string name = fmt::format("device{}-{}", options_.number, queue);
    pthread_setname_np(threads_.emplace_back(loop).native_handle(), name.c_str());
  };
  start("copy", [this] { CopyLoop(); });
  start("run", [this] { RunLoop(RecordPlace::kSlot); });
  start("link", [this] { RunLoop(RecordPlace::kRam); });
}

void DeviceQueues::Stop() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.notify_all();
  threads_.clear();
}

void DeviceQueues::Copy(CopyId id, const DeviceCopy& copy) {
  {
    MutexLock lock(mu_);
    copies_.push_back({.id = id, .copy = copy});
  }
  changed_.notify_all();
}

void DeviceQueues::CancelCopy(CopyId id) {
  MutexLock lock(mu_);
  for (QueuedCopy& queued : copies_) {
    if (queued.id == id) queued.cancelled = true;
  }
}

void DeviceQueues::Run(RunId id, std::vector<DeviceTask> tasks) {
  const RecordPlace place = PlaceOf(tasks.front());
  {
    MutexLock lock(mu_);
    runs_[static_cast<size_t>(place)].push_back({.id = id, .tasks = std::move(tasks)});
  }
  changed_.notify_all();
}

void DeviceQueues::Lose(std::string_view why) {
  {
    MutexLock lock(mu_);
    if (std::exchange(lost_, true)) return;
  }
  listener_->OnDeviceLost({ErrorCode::kUnavailable, Reason::kIo,
                           fmt::format("device {} is lost: {}", options_.device, why)});
}

bool DeviceQueues::lost() const {
  MutexLock lock(mu_);
  return lost_;
}

DeviceQueues::Go DeviceQueues::MayWork() const {
  MutexLock lock(mu_);
  if (stopping_) return Go::kCancelled;
  return lost_ ? Go::kFailed : Go::kWork;
}

// Copies
// ------------------------------------------------------------------------------------------------

std::optional<DeviceQueues::QueuedCopy> DeviceQueues::NextCopy(Wait wait) {
  if (wait == Wait::kYes) AwaitCopy();
  MutexLock lock(mu_);
  if (copies_.empty()) return std::nullopt;
  const QueuedCopy next = copies_.front();
  copies_.pop_front();
  return next;
}

void DeviceQueues::AwaitCopy() {
  while (!AwaitCopyFor(kLooksEvery)) {
    if (const Status well = work_.Look(); !well) Lose(well.error().message);
  }
}

bool DeviceQueues::AwaitCopyFor(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  MutexLock lock(mu_);
  while (copies_.empty() && !stopping_) {
    if (changed_.wait_until(mu_, end) == std::cv_status::timeout) break;
  }
  return !copies_.empty() || stopping_;
}

void DeviceQueues::CopyLoop() {
  std::deque<BegunCopy> begun;
  uint32_t place = 0;
  while (true) {
    while (begun.size() < options_.copies_at_once) {
      const auto next = NextCopy(begun.empty() ? Wait::kYes : Wait::kNo);
      if (!next) break;
      begun.push_back(Begin(*next, place));
      place = (place + 1) % options_.copies_at_once;
    }
    if (begun.empty()) return;
    const BegunCopy first = begun.front();
    begun.pop_front();
    listener_->OnCopy({.id = first.id, .outcome = End(first)});
  }
}

DeviceQueues::BegunCopy DeviceQueues::Begin(const QueuedCopy& queued, uint32_t place) {
  BegunCopy begun{.id = queued.id, .ended = {}, .place = place};
  const Go go = MayWork();
  if (queued.cancelled || go == Go::kCancelled) {
    begun.ended = DeviceOutcome::kCancelled;
  } else if (go == Go::kFailed) {
    begun.ended = DeviceOutcome::kFailed;
  } else if (const Status status = work_.BeginCopy(queued.copy, place); !status) {
    begun.ended = DeviceOutcome::kFailed;
    Lose(status.error().message);
  }
  return begun;
}

DeviceOutcome DeviceQueues::End(const BegunCopy& begun) {
  if (begun.ended) return *begun.ended;
  const Result<DeviceOutcome> outcome = work_.EndCopy(begun.place);
  if (outcome) return lost() ? DeviceOutcome::kFailed : *outcome;
  Lose(outcome.error().message);
  return DeviceOutcome::kFailed;
}

// Runs
// ------------------------------------------------------------------------------------------------

std::optional<DeviceQueues::QueuedRun> DeviceQueues::NextRun(RecordPlace place) {
  std::deque<QueuedRun>& runs = runs_[static_cast<size_t>(place)];
  MutexLock lock(mu_);
  while (runs.empty() && !stopping_) changed_.wait(mu_);
  if (runs.empty()) return std::nullopt;
  QueuedRun next = std::move(runs.front());
  runs.pop_front();
  return next;
}

void DeviceQueues::RunLoop(RecordPlace place) {
  while (const std::optional<QueuedRun> next = NextRun(place)) {
    const TimePoint begin = clock_.Now();
    const DeviceOutcome outcome = Perform(place, *next);
    listener_->OnRun({.id = next->id, .outcome = outcome, .busy = clock_.Now() - begin});
  }
}

DeviceOutcome DeviceQueues::Perform(RecordPlace place, const QueuedRun& queued) {
  switch (MayWork()) {
    case Go::kCancelled:
      return DeviceOutcome::kCancelled;
    case Go::kFailed:
      return DeviceOutcome::kFailed;
    case Go::kWork:
      break;
  }
  const Status status = work_.Compute(place, queued.tasks);
  if (status) return lost() ? DeviceOutcome::kFailed : DeviceOutcome::kDone;
  Lose(status.error().message);
  return DeviceOutcome::kFailed;
}

}  // namespace moetier
