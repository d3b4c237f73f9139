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
  for (auto& [id, active] : active_) AbandonBatch(id, active);
  active_.clear();
}

// Gives its waves back: their reads are cancelled, and what lands still is awaited by Quiet.
void LayerExecutor::AbandonBatch(uint64_t id, ActiveBatch& active) {
  std::vector<WaveId> held;
  for (const auto& [wave_id, wave] : waves_) {
    if (wave.batch == id) held.push_back(wave_id);
  }
  for (const WaveId wave : held) ReleaseWaveOf(wave);
  for (PendingCall& pending : active.batch.calls()) {
    if (!pending.fault) pending.fault = OutOfTime();
  }
  Answer(active);
}

}  // namespace moetier
