// LayerExecutor's end in time: what a stop does not wait for.

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/scheduling/layer_executor.h"

namespace moetier {
namespace {

constexpr std::chrono::milliseconds kLooksAtTime{20};

Error OutOfTime() {
  return {ErrorCode::kUnavailable, Reason::kDraining,
          "the daemon is stopping and its time to answer is up; send it again later"};
}

}  // namespace

void LayerExecutor::Stop() {
  stopping_.store(true);
  mailbox_.Send(Control{[] {}});
  if (thread_.joinable()) thread_.join();
}

Status LayerExecutor::StopBy(TimePoint deadline) {
  const TimePoint earliest = std::min(deadline, abandon_at_.load());
  abandon_at_.store(earliest);
  stopping_.store(true);
  mailbox_.Send(Control{[] {}});
  if (!EndsBy(earliest + kStopsAfter)) {
    std::string held;
    RunOnThread([&] { held = UnderWay(); });
    if (!held.empty()) {
      return Error{ErrorCode::kUnavailable, Reason::kDraining, held + " has not ended"};
    }
  }
  Stop();
  return Ok{};
}

bool LayerExecutor::EndsBy(TimePoint time) {
  MutexLock lock(lifecycle_mu_);
  // In steps: the clock may be a test's.
  while (running_ && clock_.Now() < time) ended_.wait_for(lifecycle_mu_, kLooksAtTime);
  return !running_;
}

std::string LayerExecutor::UnderWay() const {
  uint64_t reads = 0;
  uint64_t device_work = 0;
  for (const auto& [id, model] : models_) {
    reads += model->reads_in_flight;
    device_work += model->device_work;
  }
  std::string text;
  if (device_work > 0) {
    text = fmt::format("work of device {} ({} copies and runs{})", device_->description().name,
                       device_work, device_lost_ ? ", and it is lost" : "");
  }
  if (reads > 0) text += fmt::format("{}a read of the drive ({})", text.empty() ? "" : ", ", reads);
  return text;
}

bool LayerExecutor::IsTimeUp() const {
  return stopping_.load() && clock_.Now() >= abandon_at_.load();
}

void LayerExecutor::Abandon() {
  for (PendingCall& pending : queue_) Reply(pending, OutOfTime());
  queue_.clear();
  while (!active_.empty()) {
    auto node = active_.extract(active_.begin());
    ActiveBatch& active = node.mapped();
    for (PendingCall& pending : active.batch.calls()) {
      if (!pending.fault) pending.fault = OutOfTime();
    }
    Answer(active);
    if (active.device.runs > 0) {
      abandoned_.insert(std::move(node));  // the device reads its rows and its slots
    } else {
      ReleaseWavesOf(node.key());
    }
  }
}

// Gives a batch's waves back: their reads are cancelled, and what lands still is awaited by Quiet.
void LayerExecutor::ReleaseWavesOf(uint64_t batch) {
  std::vector<WaveId> held;
  for (const auto& [wave_id, wave] : waves_) {
    if (wave.batch == batch) held.push_back(wave_id);
  }
  for (const WaveId wave : held) ReleaseWaveOf(wave);
  ReleaseVramWavesOf(batch);
}

}  // namespace moetier
