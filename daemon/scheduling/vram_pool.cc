#include "daemon/scheduling/vram_pool.h"

#include <algorithm>
#include <utility>

#include "base/text_size.h"
#include "tiers/arena_plan.h"

namespace moetier {
namespace {

std::vector<ExpertKey> KeysOfClass(ModelId model, const ModelGeometry& geometry,
                                   size_t size_class) {
  std::vector<ExpertKey> keys;
  for (const LayerGeometry& layer : geometry.layers) {
    if (Raw(layer.size_class) != size_class) continue;
    for (uint32_t expert = 0; expert < layer.experts; ++expert) {
      keys.push_back({model, layer.layer, ExpertIndex{static_cast<uint16_t>(expert)}});
    }
  }
  return keys;
}

struct PlannedArena {
  ArenaPlan plan;
  std::unique_ptr<DeviceArena> arena;
  std::optional<std::string> less;
};

// Whether a smaller arena may be had: what several devices have free may be in pieces too small for
// the last slots, and other programs may have taken what a budget counts on.
bool MayFitSmaller(const Error& refusal, const ArenaPlan& plan) {
  return refusal.code == ErrorCode::kExhausted && plan.least < plan.total;
}

// The plan's, or the largest below it that fits, to a hundredth.
Result<PlannedArena> AllocateMost(const ModelGeometry& geometry, ArenaPlan plan, Device& device,
                                  std::string_view key) {
  Result<std::unique_ptr<DeviceArena>> arena = device.Allocate(plan, key);
  if (arena) return PlannedArena{std::move(plan), *std::move(arena), {}};
  const Error refusal = std::move(arena).error();
  if (!MayFitSmaller(refusal, plan)) return refusal;
  const auto allocate = [&](Bytes budget) -> Result<PlannedArena> {
    ASSIGN_OR_RETURN(ArenaPlan smaller,
                     VramPool::Plan(geometry, budget, device.description().granule));
    ASSIGN_OR_RETURN(std::unique_ptr<DeviceArena> part, device.Allocate(smaller, key));
    return PlannedArena{std::move(smaller), std::move(part), {}};
  };
  Bytes fits = plan.least;
  Bytes fails = plan.total;
  while ((fails - fits).count() > plan.total.count() / 100) {
    const Bytes middle = fits + Bytes((fails - fits).count() / 2);
    const Result<PlannedArena> had = allocate(middle);
    if (!had && had.error().code != ErrorCode::kExhausted) return had.error();
    (had ? fits : fails) = middle;
  }
  if (refusal.reason == Reason::kNoRoom) return allocate(fits);
  ASSIGN_OR_RETURN(PlannedArena had,
                   allocate(std::max(plan.least, fits - Bytes(fits.count() / 8))));
  had.less = fmt::format("{}; it has {} in place of {}", refusal.message,
                         FormatSize(had.plan.total), FormatSize(plan.total));
  return had;
}

}  // namespace

Result<ArenaPlan> VramPool::Plan(const ModelGeometry& geometry, const MemoryBudget& budget,
                                 Bytes granule) {
  Bytes resolved = ResolveBudget(budget, geometry.TotalBytes());
  if (resolved >= geometry.TotalBytes()) {
    resolved += granule * geometry.size_classes.size();  // each class ends within one
  }
  Result<ArenaPlan> plan = PlanArena(geometry.size_classes, resolved, 1, granule);
  if (plan.has_value() && resolved > geometry.TotalBytes()) plan->budget = plan->total;
  return plan;
}

Result<std::unique_ptr<VramPool>> VramPool::Create(const Options& options, ModelId model,
                                                   const ModelGeometry& geometry, Device& device) {
  const Bytes granule = device.description().granule;
  Result<ArenaPlan> plan = Plan(geometry, options.budget, granule);
  if (const Bytes left = device.free(); plan.has_value() && plan->total > left) {
    plan = Plan(geometry, left, granule);
  }
  if (!plan.has_value()) {
    plan.error().message = fmt::format("{}: {}", options.budget_key, plan.error().message);
    return std::move(plan).error();
  }
  ASSIGN_OR_RETURN(PlannedArena had,
                   AllocateMost(geometry, *std::move(plan), device, options.budget_key));
  std::unique_ptr<VramPool> pool(new VramPool(options.admission, had.plan.budget));
  pool->arena_ = std::move(had.arena);
  pool->less_ = std::move(had.less);
  for (size_t i = 0; i < had.plan.regions.size(); ++i) {
    Class& each = pool->classes_.emplace_back();
    const uint32_t places = pool->arena_->Places(SizeClass{static_cast<uint8_t>(i)});
    ASSIGN_OR_RETURN(each.ledger,
                     ResidencyLedger::Create({.slot_count = had.plan.regions[i].slots,
                                              .place_count = places,
                                              .retiring = Retiring::kHighest,
                                              .policy = options.policy,
                                              .keys = KeysOfClass(model, geometry, i)}));
    each.occupants.resize(places);
  }
  return pool;
}

bool VramPool::WantsIn(const ExpertKey& key) {
  if (admission_ == VramAdmission::kAlways) return true;
  const auto [touched, first] = touched_.insert(key);
  return !first;
}

bool VramPool::MayEnter(SizeClass size_class, const ExpertKey& key) const {
  const ResidencyLedger& here = ledger(size_class);
  if (copies_ >= kMaxCopies || here.StateOf(key) != SlotState::kAbsent) return false;
  const LedgerCounts counts = here.counts();
  // What is loading or draining is reserved by its wave or no place to be had.
  return counts.free + counts.resident + counts.loading > counts.reserved;
}

std::optional<ExpertKey> VramPool::CopyBegins(SizeClass size_class, SlotIndex slot,
                                              const ExpertKey& key) {
  ++copies_;
  touched_.erase(key);
  return std::exchange(classes_[Raw(size_class)].occupants[Raw(slot)], std::nullopt);
}

void VramPool::CopyEnded(SizeClass size_class, SlotIndex slot, const ExpertKey& key,
                         DeviceOutcome outcome) {
  --copies_;
  if (outcome == DeviceOutcome::kFailed) ++counters_.failed_copies;
  const ResidencyLedger& here = ledger(size_class);
  if (here.StateOf(key) != SlotState::kResident || here.SlotOf(key) != slot) return;
  ++counters_.copies_in;
  classes_[Raw(size_class)].occupants[Raw(slot)] = key;
}

std::optional<ExpertKey> VramPool::SlotRetires(SizeClass size_class, SlotIndex slot) {
  ++leaving_;
  return std::exchange(classes_[Raw(size_class)].occupants[Raw(slot)], std::nullopt);
}

void VramPool::SlotVacated(SizeClass size_class, SlotIndex slot) {
  --leaving_;
  retired_.emplace_back(size_class, slot);
}

}  // namespace moetier
