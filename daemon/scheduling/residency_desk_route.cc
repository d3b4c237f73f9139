// ResidencyDesk's Route: where the experts of a layer are, and where they would be computed, for an
// engine that computes them itself.

#include <algorithm>
#include <set>

#include "daemon/scheduling/layer_executor.h"
#include "daemon/scheduling/residency_desk.h"

namespace moetier {
namespace {

uint32_t LaneOf(PickLane lane) {
  switch (lane) {
    case PickLane::kGpu:
    case PickLane::kPush:
      return Raw(LaneKind::kGpu);
    case PickLane::kZeroCopy:
      return Raw(LaneKind::kZeroCopy);
    case PickLane::kCpu:
    case PickLane::kMasked:
      break;
  }
  return Raw(LaneKind::kCpu);
}

Residence ResidenceOf(SlotState state) {
  switch (state) {
    case SlotState::kResident:
      return Residence::kResident;
    case SlotState::kLoading:
      return Residence::kLoading;
    default:
      return Residence::kAbsent;
  }
}

PickPlace PlaceOf(const RoutedExpert& expert) {
  switch (expert.residence) {
    case Residence::kResident:
      return expert.pool == kRamPool ? PickPlace::kRam : PickPlace::kVram;
    case Residence::kLoading:
      return PickPlace::kInFlight;
    default:
      return PickPlace::kNvme;
  }
}

}  // namespace

RoutedExpert ResidencyDesk::Locate(const LoadedModel& model, const ExpertKey& key) const {
  RoutedExpert found{.expert = key.expert};
  if (StateOf(model, {key, kDevicePool}) == SlotState::kResident) {
    found.residence = Residence::kResident;
    found.pool = kDevicePool;
    return found;
  }
  found.residence = ResidenceOf(StateOf(model, {key, kRamPool}));
  if (found.residence == Residence::kAbsent && model.quarantine.contains(key)) {
    found.residence = Residence::kQuarantined;
  }
  return found;
}

void ResidencyDesk::Route(SessionId session, LayerIndex layer, uint32_t rows,
                          const std::vector<ExpertIndex>& experts,
                          const Done<std::vector<RoutedExpert>>& done) {
  const Result<Open> open = Find(session);
  if (!open) return done(open.error());
  LoadedModel& model = open->model;
  std::vector<RoutedExpert> routed;
  std::set<ExpertIndex> seen;
  for (const ExpertIndex expert : experts) {
    if (seen.insert(expert).second) routed.push_back(Locate(model, {model.id, layer, expert}));
  }
  if (routed.empty()) return done(std::move(routed));
  NoteAccess(model, layer, rows, routed);
  PlanLanes(model, layer, rows, routed);
  done(std::move(routed));
}

// As a call of these rows would: where it finds an expert, there it uses it.
void ResidencyDesk::NoteAccess(LoadedModel& model, LayerIndex layer, uint32_t rows,
                               const std::vector<RoutedExpert>& routed) {
  const SizeClass size_class = model.geometry->Find(layer)->size_class;
  const Admission admission = rows > LayerBatch::kDecodeRows ? Admission::kCold : Admission::kHot;
  // A request adds one token's heat at most.
  const float heat =
      std::min(1.0f, static_cast<float>(model.geometry->top_k) / static_cast<float>(routed.size()));
  model.heat->NextRequest();
  std::vector<ExpertKey> in_ram;
  std::vector<ExpertKey> in_vram;
  for (const RoutedExpert& each : routed) {
    model.heat->Add(layer, each.expert, heat);
    (each.pool == kDevicePool ? in_vram : in_ram).push_back({model.id, layer, each.expert});
  }
  if (model.vram && executor_.HasDevice()) model.vram->NoteAbsent(size_class, in_ram.size());
  if (!in_ram.empty()) {
    executor_.Step(model, size_class, Touch{.keys = in_ram, .admission = admission, .heat = heat});
  }
  if (!in_vram.empty()) {
    executor_.StepVram(model, size_class,
                       Touch{.keys = in_vram, .admission = admission, .heat = heat});
  }
}

void ResidencyDesk::PlanLanes(LoadedModel& model, LayerIndex layer, uint32_t rows,
                              std::vector<RoutedExpert>& routed) const {
  if (!executor_.HasDevice() || model.planning == nullptr) return;
  const LayerGeometry& geometry = *model.geometry->Find(layer);
  if (!geometry.compute) return;  // no lane can; the engine's own kernels do
  const ExpertKind kind = ModelPlanning::KindOf(geometry.size_class);
  std::vector<PlanPick> picks;
  for (const RoutedExpert& each : routed) {
    picks.push_back({.place = PlaceOf(each), .kind = kind, .rows = rows});
  }
  const std::span<const PickLane> lanes = model.planning->Foresee(picks, executor_.clock_.Now());
  for (size_t i = 0; i < routed.size(); ++i) routed[i].lane = LaneOf(lanes[i]);
}

}  // namespace moetier
