// ExpertCore's live budgets: memory is given back and taken while calls are served.

#include <algorithm>
#include <thread>
#include <utility>

#include "base/text_size.h"
#include "daemon/scheduling/expert_core.h"

namespace moetier {
namespace {

constexpr std::chrono::milliseconds kLookAgain{5};  // at slots that calls still use
constexpr std::chrono::seconds kTryAgain{60};       // to restore a budget that did not fit

using SlotRun = LayerExecutor::SlotRun;

Error NotLoadedAnyMore() {
  return {ErrorCode::kNotFound, Reason::kUnknownModel, "the model is not loaded any more"};
}

// The first `count` of the ascending slots, neighbours together.
void AppendRuns(SizeClass size_class, const std::vector<SlotIndex>& slots, uint32_t count,
                std::vector<SlotRun>& runs) {
  for (uint32_t i = 0; i < count; ++i) {
    const bool goes_on = i > 0 && Raw(slots[i]) == Raw(slots[i - 1]) + 1;
    if (goes_on) {
      ++runs.back().count;
    } else {
      runs.push_back({.size_class = size_class, .first = slots[i], .count = 1});
    }
  }
}

}  // namespace

Result<Bytes> ExpertCore::SetBudget(ModelId id, Bytes bytes,
                                    std::optional<std::chrono::seconds> hold) {
  const auto turn = budget_turns_.Take([] { return true; });
  return SetBudgetNow(id, bytes, hold);
}

Result<BudgetLoan> ExpertCore::LendBudget(ModelId id, Bytes less, std::chrono::seconds hold) {
  const auto turn = budget_turns_.Take([] { return true; });
  const std::optional<Bytes> before = BudgetOf(id);
  if (!before) return NotLoadedAnyMore();
  const auto lent = lent_.find(id);
  const Bytes original = lent != lent_.end() ? lent->second.original : *before;
  if (less >= original) {
    return Error{ErrorCode::kExhausted, Reason::kBudgetTooSmall,
                 fmt::format("the model's budget is {}: {} less leaves it nothing",
                             FormatSize(original), FormatSize(less))};
  }
  ASSIGN_OR_RETURN(const Bytes in_force, SetBudgetNow(id, original - less, hold));
  return BudgetLoan{.in_force = in_force, .original = original};
}

Result<Bytes> ExpertCore::SetBudgetNow(ModelId id, Bytes bytes,
                                       std::optional<std::chrono::seconds> hold) {
  const std::optional<Bytes> before = BudgetOf(id);
  if (!before) return NotLoadedAnyMore();
  ASSIGN_OR_RETURN(const Bytes in_force, Resize(id, bytes));
  const auto lent = lent_.find(id);
  Bytes original = *before;
  if (lent != lent_.end()) {
    original = lent->second.original;
    tasks_.Drop(lent->second.task);
    lent_.erase(lent);
  }
  if (hold) {
    const uint64_t loan = ++last_loan_;
    lent_[id] = {.original = original,
                 .loan = loan,
                 .task = tasks_.At(std::chrono::steady_clock::now() + *hold,
                                   [this, id, loan] { RestoreBudget(id, loan); })};
  }
  return in_force;
}

void ExpertCore::RestoreBudget(ModelId id, uint64_t loan) {
  const auto turn = budget_turns_.Take([] { return true; });
  const auto lent = lent_.find(id);
  const std::optional<ModelInfo> info = ModelById(id);
  if (lent == lent_.end() || lent->second.loan != loan) return;
  if (!info) {
    lent_.erase(lent);
    return;
  }
  const Result<Bytes> restored = Resize(id, lent->second.original);
  if (restored) {
    log_.info("model {}: its budget is {} again", info->name, FormatSize(*restored));
    lent_.erase(lent);
    return;
  }
  log_.warn("model {}: its budget is not restored yet: {}", info->name, restored.error().message);
  lent->second.task = tasks_.At(std::chrono::steady_clock::now() + kTryAgain,
                                [this, id, loan] { RestoreBudget(id, loan); });
}

std::optional<Bytes> ExpertCore::BudgetOf(ModelId id) {
  std::optional<Bytes> budget;
  executor_.WithModel(id, [&](const LoadedModel& model) { budget = model.budget; });
  return budget;
}

Result<Bytes> ExpertCore::Resize(ModelId id, Bytes bytes) {
  const std::optional<ModelInfo> info = ModelById(id);
  Arena* arena = nullptr;  // stays: an unload waits for the turn
  executor_.WithModel(id, [&](LoadedModel& model) { arena = model.arena.get(); });
  if (!info || arena == nullptr) return NotLoadedAnyMore();
  const ModelGeometry& geometry = *info->geometry;
  const Bytes budget = ResolveBudget(bytes, geometry.TotalBytes());
  ASSIGN_OR_RETURN(const ArenaPlan plan, PlanArena(geometry.size_classes, budget, geometry.top_k));
  RETURN_IF_ERROR(arena->CheckResizable());
  std::vector<uint32_t> slots;
  for (size_t i = 0; i < plan.regions.size(); ++i) {
    const uint32_t places = arena->Places(SizeClass{static_cast<uint8_t>(i)});
    if (plan.regions[i].slots > places) {
      return Error{
          ErrorCode::kExhausted, Reason::kMemoryLimit,
          fmt::format("{} slots of {} are wanted, there are addresses for {} (fallback "
                      "memory_growth:none); raise the limit of address space and restart",
                      plan.regions[i].slots, FormatSize(plan.regions[i].slot_bytes), places)};
    }
    slots.push_back(plan.regions[i].slots);
  }
  RETURN_IF_ERROR(executor_.LimitSlots(id, slots));
  RETURN_IF_ERROR(GiveBackRetired(id, slots, *arena));
  RETURN_IF_ERROR(TakeMissing(id, slots, budget, *arena));
  Preheat(id);
  return plan.total;
}

Status ExpertCore::GiveBackRetired(ModelId id, const std::vector<uint32_t>& slots, Arena& arena) {
  while (true) {
    const LayerExecutor::SlotUse use = executor_.TakeRetired(id);
    if (use.active.empty()) return NotLoadedAnyMore();
    for (const auto& [size_class, slot] : use.retired) arena.GiveBack(size_class, slot);
    bool over = false;
    for (size_t i = 0; i < slots.size(); ++i) over |= use.active[i] > slots[i];
    if (!over) return Ok{};
    const std::optional<ModelInfo> info = ModelById(id);
    if (!info || info->state != ModelState::kReady) return NotLoadedAnyMore();
    std::this_thread::sleep_for(kLookAgain);
  }
}

Status ExpertCore::TakeMissing(ModelId id, const std::vector<uint32_t>& slots, Bytes budget,
                               Arena& arena) {
  const LayerExecutor::SlotUse use = executor_.TakeRetired(id);
  if (use.active.empty()) return NotLoadedAnyMore();
  std::vector<SlotRun> runs;
  Bytes wanted;
  for (size_t i = 0; i < slots.size(); ++i) {
    const uint32_t missing = slots[i] - std::min(slots[i], use.active[i]);
    AppendRuns(SizeClass{static_cast<uint8_t>(i)}, use.spare[i], missing, runs);
    wanted += arena.plan().regions[i].slot_bytes * missing;
  }
  // Two that take memory at once would both find what one may take.
  const auto turn = load_turns_.Take([] { return true; });
  if (wanted > Bytes()) {
    ASSIGN_OR_RETURN(const MemoryLimits limits, ReadMemoryLimits(options_.arena.roots));
    RETURN_IF_ERROR(CheckBudget(
        limits,
        {.what = "the larger budget", .wanted = wanted, .reserve = options_.arena.reserve}));
    if (arena.pinned_bytes() > Bytes()) {
      RETURN_IF_ERROR(CheckMemlock(limits, arena.pinned_bytes() + wanted));
    }
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    const Status taken = arena.Take(runs[i].size_class, runs[i].first, runs[i].count);
    if (taken) continue;
    for (const SlotRun& run : std::span(runs).first(i)) {
      for (uint32_t at = 0; at < run.count; ++at) {
        arena.GiveBack(run.size_class, SlotIndex{Raw(run.first) + at});
      }
    }
    return taken.error();
  }
  executor_.RestoreSlots(id, runs, budget);
  return Ok{};
}

}  // namespace moetier
