// LayerExecutor's planning: on which lane each expert of a piece runs. Only where there is a
// device.

#include <algorithm>
#include <utility>

#include "daemon/scheduling/layer_executor.h"

namespace moetier {
namespace {

PickPlace PlaceInRam(const ResidencyLedger& ledger, const ExpertKey& key) {
  switch (ledger.StateOf(key)) {
    case SlotState::kResident:
      return PickPlace::kRam;
    case SlotState::kLoading:
      return PickPlace::kInFlight;
    default:
      return PickPlace::kNvme;
  }
}

// A lane that a call asks for in place of a plan. What is not in VRAM is pushed there for the GPU;
// where that cannot be, it runs on the CPU.
PickLane ForcedLane(LaneKind lane, PickPlace place) {
  switch (lane) {
    case LaneKind::kCpu:
      return PickLane::kCpu;
    case LaneKind::kZeroCopy:
      return PickLane::kZeroCopy;
    case LaneKind::kGpu:
      return place == PickPlace::kVram ? PickLane::kGpu : PickLane::kPush;
  }
  return PickLane::kCpu;
}

}  // namespace

void LayerExecutor::PlanPiece(uint64_t id, ActiveBatch& active) {
  if (!active.model.planning) return;
  const TimePoint begin = clock_.Now();
  ReadPicks(active);
  ChooseLanes(active);
  ReserveInVram(id, active);
  const std::vector<PickLane>& lanes = active.device.lanes;
  std::erase_if(active.asks, [&](uint32_t index) { return lanes[index] == PickLane::kGpu; });
  active.planned += clock_.Now() - begin;
}

void LayerExecutor::ReadPicks(const ActiveBatch& active) {
  const LoadedModel& model = active.model;
  const SizeClass size_class = active.batch.geometry().size_class;
  picks_.clear();
  for (const LayerBatch::PickedExpert& expert : active.batch.experts()) {
    const bool in_vram = model.vram && model.vram->Serves(size_class, expert.key);
    picks_.push_back({.place = in_vram ? PickPlace::kVram
                                       : PlaceInRam(*model.ledgers[Raw(size_class)], expert.key),
                      .kind = ModelPlanning::KindOf(size_class),
                      .rows = expert.use_count});
  }
}

void LayerExecutor::ChooseLanes(ActiveBatch& active) {
  const std::vector<PendingCall>& calls = active.batch.calls();
  std::vector<PickLane>& lanes = active.device.lanes;
  const std::optional<uint32_t> forced = calls.front().call.forced_lane;
  if (forced) {
    lanes.resize(picks_.size());
    std::ranges::transform(picks_, lanes.begin(), [&](const PlanPick& pick) {
      return ForcedLane(static_cast<LaneKind>(*forced), pick.place);
    });
    if (!active.model.shown) std::ranges::replace(lanes, PickLane::kZeroCopy, PickLane::kCpu);
    return;
  }
  const bool decodes = calls.size() == 1 && calls.front().call.rows == 1;
  const ModelPlanning::Choice choice = active.model.planning->Place(
      picks_, decodes ? ModelPlanning::Call::kDecode : ModelPlanning::Call::kOther, clock_.Now());
  lanes.assign(choice.lanes.begin(), choice.lanes.end());
  active.device.judged = choice.judged;
}

// What is in VRAM and runs there, in one wave, which is granted at once.
void LayerExecutor::ReserveInVram(uint64_t id, ActiveBatch& active) {
  LoadedModel& model = active.model;
  if (!model.vram) return;
  const SizeClass size_class = active.batch.geometry().size_class;
  const std::span<const LayerBatch::PickedExpert> experts = active.batch.experts();
  VramWave wave{.model = &model, .size_class = size_class, .batch = id};
  std::vector<ExpertKey> keys;
  std::vector<float> heat;
  for (uint32_t i = 0; i < experts.size(); ++i) {
    if (active.device.lanes[i] != PickLane::kGpu) continue;
    wave.experts.push_back(i);
    keys.push_back(experts[i].key);
    heat.push_back(experts[i].heat);
  }
  model.vram->NoteAbsent(
      size_class, static_cast<uint64_t>(std::ranges::count_if(picks_, [](const PlanPick& pick) {
        return pick.place != PickPlace::kVram;
      })));
  if (keys.empty()) return;
  const bool hot = std::ranges::any_of(
      wave.experts, [&](uint32_t index) { return experts[index].admission == Admission::kHot; });
  wave.unfinished = static_cast<uint32_t>(keys.size());
  const WaveId wave_id{next_wave_++};
  vram_waves_.emplace(wave_id, std::move(wave));
  StepVram(model, size_class,
           ReserveWave{.wave = wave_id,
                       .keys = keys,
                       .admission = hot ? Admission::kHot : Admission::kCold,
                       .tenure = Tenure::kCall,
                       .heat = heat});
}

void LayerExecutor::TellPlanning(ActiveBatch& active, TimePoint now) {
  if (!active.device.judged) return;
  const PendingCall& pending = active.batch.calls().front();
  if (pending.fault) return;
  ModelPlanning& planning = *active.model.planning;
  if (!planning.Took(now - pending.call.received)) return;
  const PlanCheck& check = planning.check();
  if (check.choice() == PlanArm::kSimplest) {
    log_.warn(
        "model {}: planned layers took longer than unplanned ones; from now on what is in "
        "VRAM runs there and all else on the CPU (reversion {})",
        active.model.name, check.reversions());
  } else {
    log_.info("model {}: layers are planned again (restoration {})", active.model.name,
              check.restorations());
  }
}

}  // namespace moetier
