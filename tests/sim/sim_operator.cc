#include "tests/sim/sim_operator.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "tests/sim/kept_unseen.h"

namespace moetier {

std::vector<ExpertKey> SimOperator::DrawKeys(uint32_t most) {
  const std::vector<ExpertKey>& all = machine_.sim_model.keys();
  std::vector<ExpertKey> keys;
  const uint32_t count = random_.Between(1, most);
  for (uint32_t i = 0; i < count; ++i) keys.push_back(all[random_.Below(all.size())]);
  return keys;
}

void SimOperator::Pin() {
  if (!asked_) AskFor(DrawKeys(3));
}

void SimOperator::AskFor(const std::vector<ExpertKey>& keys) {
  SteppedExecutor::Pins asked;
  {
    const KeptUnseen unseen(machine_.model(), canary_ == ExecutorCanary::kLeasesUnseenByPins);
    asked = machine_.stepped.AskForPins(keys);
  }
  trace_.Say("pin {} and {} more: {}", ToString(keys.front()), keys.size() - 1,
             asked.taken.has_value() ? "asked for" : asked.taken.error().message);
  const bool no_room = !asked.taken.has_value() && asked.taken.error().reason == Reason::kNoRoom;
  if (!asked.taken.has_value() && !(no_room && LackRoom(keys)) && !stopping_) {
    auditor_.Report(fmt::format("a pin is refused: {}", asked.taken.error().message));
  }
  unpinned_.clear();
  asked_ = std::move(asked);
}

// Whether the keys, of one size class, may be more than can be pinned; some may be pinned already.
bool SimOperator::LackRoom(const std::vector<ExpertKey>& keys) {
  const LoadedModel& model = *machine_.model();
  for (uint8_t i = 0; i < model.ledgers.size(); ++i) {
    const auto wanted = std::ranges::count_if(keys, [&](const ExpertKey& key) {
      return machine_.sim_model.ClassOf(key) == SizeClass{i};
    });
    const uint32_t taken = model.pinned[i] + model.kept_in_ram[i].kept + model.SlotsForCalls();
    if (wanted > 0 && static_cast<uint32_t>(wanted) + taken > model.ledgers[i]->slot_count()) {
      return true;
    }
  }
  return false;
}

bool SimOperator::IsTooSmall(const Budget& budget) {
  const LoadedModel& model = *machine_.model();
  const bool in_ram = budget.of.pool == kRamPool;
  for (size_t i = 0; i < budget.slots.size(); ++i) {
    const uint32_t held = model.KeptIn(budget.of.pool)[i].kept + (in_ram ? model.pinned[i] : 0);
    const uint32_t for_calls = in_ram ? model.SlotsForCalls() : 0;
    if (held > 0 && held + for_calls > budget.slots[i]) return true;
  }
  return false;
}

void SimOperator::Unpin() {
  const std::vector<ExpertKey> keys = DrawKeys(8);
  trace_.Say("unpin {} and {} more", ToString(keys.front()), keys.size() - 1);
  machine_.executor.Unpin(keys);
  for (const ExpertKey& key : keys) {
    pinned_.erase(key);
    unpinned_.insert(key);
  }
}

void SimOperator::UnpinAll() {
  const std::vector<ExpertKey>& all = machine_.sim_model.keys();
  machine_.executor.Unpin(all);
  pinned_.clear();
  unpinned_.insert(all.begin(), all.end());
}

bool SimOperator::ConcludePins() {
  if (!asked_ || !SteppedExecutor::HaveEnded(*asked_)) return false;
  const std::vector<ExpertKey> keys = asked_->keys;
  const Result<uint32_t> pinned = machine_.stepped.Conclude(*std::exchange(asked_, std::nullopt));
  const auto was_unpinned = [&](const ExpertKey& key) { return unpinned_.contains(key); };
  if (pinned.has_value()) {
    std::ranges::copy_if(keys, std::inserter(pinned_, pinned_.end()), std::not_fn(was_unpinned));
    return true;
  }
  if (keys.empty()) return true;
  trace_.Say("a pin of {} fails: {}", ToString(keys.front()), pinned.error().message);
  const bool explained = pinned.error().code == ErrorCode::kCancelled
                             ? std::ranges::any_of(keys, was_unpinned)
                             : std::ranges::any_of(keys, [&](const ExpertKey& key) {
                                 return machine_.drive().Spoilt(key);
                               });
  if (!explained) auditor_.Report(fmt::format("a pin fails: {}", pinned.error().message));
  const LoadedModel* const model = machine_.model();
  if (random_.Percent(50) && model != nullptr && !model->removed) {
    Reload();
    AskFor(keys);
  }
  return true;
}

void SimOperator::CheckPins() {
  if (canary_ == ExecutorCanary::kPinForgotten && !pinned_.empty() && random_.Percent(10)) {
    machine_.executor.Unpin({*pinned_.begin()});
  }
  const LoadedModel* const model = machine_.model();
  if (model == nullptr) return;
  for (const ExpertKey& key : pinned_) {
    const SizeClass size_class = machine_.sim_model.ClassOf(key);
    if (model->ledgers[Raw(size_class)]->StateOf(key) == SlotState::kResident) continue;
    auditor_.Report(fmt::format("pinned {} is not resident", ToString(key)));
  }
}

void SimOperator::ChangeBudget() {
  const LoadedModel* const model = machine_.model();
  if (budget_ || model == nullptr || model->removed) return;
  Budget budget;
  if (model->vram != nullptr && random_.Percent(50)) budget.of.pool = kDevicePool;
  for (const SizeClassGeometry& each : machine_.sim_model.geometry().size_classes) {
    budget.slots.push_back(random_.Between(1, each.records));
  }
  const Status set = SetBudget(budget);
  trace_.Say("a budget of {} slots in pool {}: {}", fmt::join(budget.slots, " and "),
             Raw(budget.of.pool), set.has_value() ? "taken" : set.error().message);
  if (!set.has_value()) return;
  budget_ = std::move(budget);
  GiveBackEarly(*budget_);
}

void SimOperator::GiveBackEarly(const Budget& budget) {
  const PoolId pool = canary_ == ExecutorCanary::kMemoryGivenBackEarly ? kRamPool : kDevicePool;
  const bool early = canary_ == ExecutorCanary::kMemoryGivenBackEarly ||
                     canary_ == ExecutorCanary::kVramGivenBackEarly;
  if (!early || budget.of.pool != pool) return;
  for (size_t i = 0; i < budget.slots.size(); ++i) {
    const SizeClass size_class{static_cast<uint8_t>(i)};
    for (uint32_t slot = budget.slots[i]; slot < machine_.model()->arena->Places(size_class);
         ++slot) {
      auditor_.GivenBack(pool, size_class, SlotIndex{slot});
    }
  }
}

bool SimOperator::ContinueBudget() {
  if (!budget_) return false;
  const SlotUse use = machine_.executor.TakeRetired(budget_->of);
  if (use.active.empty()) return budget_.reset(), true;  // the model is being removed
  for (const auto& [size_class, slot] : use.retired) GiveBack(budget_->of, size_class, slot);
  if (use.leaving > 0) return false;
  for (size_t i = 0; i < budget_->slots.size(); ++i) {
    if (use.active[i] > budget_->slots[i]) return false;
  }
  machine_.executor.RestoreSlots(budget_->of, budget_->taken, Bytes(1));
  CheckInForce(*budget_);
  budget_.reset();
  return true;
}

void SimOperator::GiveBack(const ModelPool& of, SizeClass size_class, SlotIndex slot) {
  auditor_.GivenBack(of.pool, size_class, slot);
  if (of.pool == kDevicePool) machine_.model()->vram->memory().GiveBack(size_class, slot);
}

Status SimOperator::SetBudget(Budget& budget) {
  RETURN_IF_ERROR(TakeMissing(budget));  // the device's refusal
  const KeptUnseen unseen(machine_.model(), canary_ == ExecutorCanary::kLeasesUnseenByBudgets);
  Status limited = machine_.executor.LimitSlots(budget.of, budget.slots);
  if (limited.has_value()) return limited;
  for (const SlotRun& run : budget.taken) GiveBack(budget.of, run.size_class, run.first);
  const bool no_room = limited.error().reason == Reason::kNoRoom && IsTooSmall(budget);
  if (!no_room) auditor_.Report(limited.error().message);
  return limited;
}

// Memory for the slots that are missing, each a run of its own; all of it or nothing.
Status SimOperator::TakeMissing(Budget& budget) {
  const SlotUse use = machine_.executor.TakeRetired(budget.of);
  for (size_t i = 0; i < budget.slots.size(); ++i) {
    const SizeClass size_class{static_cast<uint8_t>(i)};
    const uint32_t missing = budget.slots[i] - std::min(budget.slots[i], use.active[i]);
    for (uint32_t at = 0; at < missing; ++at) {
      const SlotIndex slot = use.spare[i][at];
      Status taken = Ok{};
      if (budget.of.pool == kDevicePool) {
        taken = machine_.model()->vram->memory().Take(size_class, slot, 1);
      }
      if (!taken.has_value()) {
        for (const SlotRun& run : budget.taken) GiveBack(budget.of, run.size_class, run.first);
        return taken;
      }
      budget.taken.push_back({.size_class = size_class, .first = slot, .count = 1});
    }
  }
  return Ok{};
}

void SimOperator::CheckInForce(const Budget& budget) {
  const LoadedModel& model = *machine_.model();
  for (size_t i = 0; i < budget.slots.size(); ++i) {
    const SizeClass size_class{static_cast<uint8_t>(i)};
    const ResidencyLedger& ledger =
        budget.of.pool == kRamPool ? *model.ledgers[i] : model.vram->ledger(size_class);
    if (ledger.slot_count() == budget.slots[i]) continue;
    auditor_.Report(fmt::format("a budget of {} slots is in force with {}", budget.slots[i],
                                ledger.slot_count()));
  }
}

void SimOperator::Preheat() {
  std::vector<ExpertKey> keys = machine_.sim_model.keys();
  for (size_t i = keys.size(); i > 1; --i) std::swap(keys[i - 1], keys[random_.Below(i)]);
  trace_.Say("preheat");
  machine_.executor.StartPreheat(kSimModel, std::move(keys));
}

void SimOperator::Reload() {
  trace_.Say("the quarantine is lifted");
  machine_.executor.LiftQuarantine(kSimModel);
}

bool SimOperator::Continue() {
  const bool concluded = ConcludePins();
  return ContinueBudget() || concluded;
}

void SimOperator::CheckAtRest(bool stopping) {
  if (asked_) auditor_.Report(fmt::format("{} pins are never answered", asked_->keys.size()));
  if (budget_) auditor_.Report("a budget is never in force");
  const PreheatProgress preheat = machine_.executor.PreheatOf(kSimModel);
  if (preheat.under_way && !stopping) auditor_.Report("a preheat never ends");
  if (!preheat.under_way && preheat.records_done != preheat.records_total) {
    auditor_.Report(fmt::format("a preheat ends with {} of {} records", preheat.records_done,
                                preheat.records_total));
  }
}

}  // namespace moetier
