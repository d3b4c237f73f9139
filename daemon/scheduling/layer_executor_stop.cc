// LayerExecutor's end in time: what a stop does not wait for.

#include <utility>
#include <vector>

#include "daemon/scheduling/layer_executor.h"

namespace moetier {
namespace {

Error OutOfTime() {
  return {ErrorCode::kUnavailable, Reason::kDraining,
          "the daemon is stopping and its time to answer is up; send it again later"};
}

}  // namespace

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
