// LayerExecutor's masking (`exact: mask`): up to a quarter of a row's picks, whether absent or
// being read, are left out of a decode's sums, and read for the next time.

#include <utility>

#include "daemon/scheduling/layer_executor.h"

namespace moetier {

// An expert that is being read is left out too: to wait for it is what masking spares. One whose
// bytes cannot be had fails the call, as ever.
void LayerExecutor::MaskMisses(ActiveBatch& active) {
  LoadedModel& model = active.model;
  std::erase_if(active.asks, [&](uint32_t index) {
    const LayerBatch::PickedExpert& expert = active.batch.experts()[index];
    if (IsResident(expert.key) || model.quarantine.contains(expert.key)) return false;
    if (!active.batch.TryMask(index)) return false;
    model.masked_picks += expert.use_count;
    active.masked.push_back(index);
    --active.unfinished;
    return true;
  });
}

// After the piece has reserved what it does wait for, so that none of that makes room for these.
void LayerExecutor::FillMasked(ActiveBatch& active) {
  LoadedModel& model = active.model;
  const SizeClass size_class = active.batch.geometry().size_class;
  for (const uint32_t index : std::exchange(active.masked, {})) {
    const LayerBatch::PickedExpert& expert = active.batch.experts()[index];
    if (!model.filling.insert(expert.key).second) continue;
    const WaveId id{next_wave_++};
    Wave& wave = waves_[id];
    wave.model = &model;
    wave.size_class = size_class;
    wave.batch = kUnattendedBatch;
    wave.keys = {expert.key};
    wave.heat = {expert.heat};
    Step(model, size_class,
         ReserveWave{.wave = id,
                     .keys = wave.keys,
                     .admission = expert.admission,
                     .tenure = Tenure::kCall,
                     .heat = wave.heat});
  }
}

}  // namespace moetier
