#include "tests/sim/sim_operator.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

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
  SteppedExecutor::Pins asked = machine_.stepped.AskForPins(keys);
  trace_.Say("pin {} and {} more: {}", ToString(keys.front()), keys.size() - 1,
             asked.taken.has_value() ? "asked for" : asked.taken.error().message);
  const bool no_room = !asked.taken.has_value() && asked.taken.error().reason == Reason::kNoRoom;
  if (!asked.taken.has_value() && !no_room && !stopping_) {
    auditor_.Report(fmt::format("a pin is refused: {}", asked.taken.error().message));
  }
  unpinned_.clear();
  asked_ = std::move(asked);
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
  if (budget_) return;
  Budget budget;
  for (const SizeClassGeometry& each : machine_.sim_model.geometry().size_classes) {
    budget.slots.push_back(random_.Between(1, each.records));
  }
  const Status limited = machine_.executor.LimitSlots(kSimModel, budget.slots);
  trace_.Say("a budget of {} slots: {}", fmt::join(budget.slots, " and "),
             limited.has_value() ? "taken" : limited.error().message);
  if (!limited.has_value()) {
    if (limited.error().reason != Reason::kNoRoom) auditor_.Report(limited.error().message);
    return;
  }
  budget_ = std::move(budget);
  if (canary_ != ExecutorCanary::kMemoryGivenBackEarly) return;
  for (size_t i = 0; i < budget_->slots.size(); ++i) {
    const SizeClass size_class{static_cast<uint8_t>(i)};
    for (uint32_t slot = budget_->slots[i]; slot < machine_.model()->arena->Places(size_class);
         ++slot) {
      auditor_.GivenBack(size_class, SlotIndex{slot});
    }
  }
}

bool SimOperator::ContinueBudget() {
  if (!budget_) return false;
  const LayerExecutor::SlotUse use = machine_.executor.TakeRetired(kSimModel);
  if (use.active.empty()) return budget_.reset(), true;  // the model is being removed
  for (const auto& [size_class, slot] : use.retired) auditor_.GivenBack(size_class, slot);
  for (size_t i = 0; i < budget_->slots.size(); ++i) {
    if (use.active[i] > budget_->slots[i]) return false;
  }
  TakeMissing(*budget_, use);
  budget_.reset();
  return true;
}

void SimOperator::TakeMissing(const Budget& budget, const LayerExecutor::SlotUse& use) {
  std::vector<LayerExecutor::SlotRun> runs;
  for (size_t i = 0; i < budget.slots.size(); ++i) {
    const uint32_t missing = budget.slots[i] - use.active[i];
    for (uint32_t at = 0; at < missing; ++at) {
      runs.push_back({.size_class = SizeClass{static_cast<uint8_t>(i)},
                      .first = use.spare[i][at],
                      .count = 1});
    }
  }
  machine_.executor.RestoreSlots(kSimModel, runs, Bytes(1));
  const LoadedModel& model = *machine_.model();
  for (size_t i = 0; i < budget.slots.size(); ++i) {
    if (model.ledgers[i]->slot_count() == budget.slots[i]) continue;
    auditor_.Report(fmt::format("a budget of {} slots is in force with {}", budget.slots[i],
                                model.ledgers[i]->slot_count()));
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
