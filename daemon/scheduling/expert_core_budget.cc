// ExpertCore's live budgets: memory is given back and taken while calls are served.
//
// What can be refused comes first: the limits are compared and the memory for more slots is taken
// before any slot is given up, so that a refused budget leaves all as it was.

#include <algorithm>
#include <thread>
#include <utility>

#include "base/text_size.h"
#include "daemon/scheduling/expert_core.h"

namespace moetier {
namespace {

constexpr std::chrono::milliseconds kLookAgain{5};  // at slots that calls still use
constexpr std::chrono::seconds kTryAgain{60};       // to restore a budget that did not fit

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

void GiveBackRuns(std::span<const SlotRun> runs, SlotMemory& memory) {
  for (const SlotRun& run : runs) {
    for (uint32_t at = 0; at < run.count; ++at) {
      memory.GiveBack(run.size_class, SlotIndex{Raw(run.first) + at});
    }
  }
}

// All of it or nothing.
Status TakeRuns(std::span<const SlotRun> runs, SlotMemory& memory) {
  for (size_t i = 0; i < runs.size(); ++i) {
    const Status taken = memory.Take(runs[i].size_class, runs[i].first, runs[i].count);
    if (taken) continue;
    GiveBackRuns(runs.first(i), memory);
    return taken;
  }
  return Ok{};
}

Status CheckPlaces(const ArenaPlan& plan, const SlotMemory& memory) {
  for (size_t i = 0; i < plan.regions.size(); ++i) {
    const uint32_t places = memory.Places(SizeClass{static_cast<uint8_t>(i)});
    if (plan.regions[i].slots <= places) continue;
    return Error{
        ErrorCode::kExhausted, Reason::kMemoryLimit,
        fmt::format("{} slots of {} are wanted, there are addresses for {} (fallback "
                    "memory_growth:none); raise the limit of address space and restart",
                    plan.regions[i].slots, FormatSize(plan.regions[i].slot_bytes), places)};
  }
  return Ok{};
}

}  // namespace

Result<Bytes> ExpertCore::SetBudget(const ModelPool& of, Bytes bytes,
                                    std::optional<std::chrono::seconds> hold) {
  const auto turn = budget_turns_.Take([] { return true; });
  return SetBudgetNow(of, bytes, hold);
}

Result<BudgetLoan> ExpertCore::LendBudget(const ModelPool& of, Bytes less,
                                          std::chrono::seconds hold) {
  const auto turn = budget_turns_.Take([] { return true; });
  ASSIGN_OR_RETURN(const Budgeted before, FindBudget(of));
  const auto lent = lent_.find(of);
  const Bytes original = lent != lent_.end() ? lent->second.original : before.budget;
  if (less >= original) {
    return Error{ErrorCode::kExhausted, Reason::kBudgetTooSmall,
                 fmt::format("the model's budget is {}: {} less leaves it nothing",
                             FormatSize(original), FormatSize(less))};
  }
  ASSIGN_OR_RETURN(const Bytes in_force, SetBudgetNow(of, original - less, hold));
  return BudgetLoan{.in_force = in_force, .original = original};
}

Result<Bytes> ExpertCore::SetBudgetNow(const ModelPool& of, Bytes bytes,
                                       std::optional<std::chrono::seconds> hold) {
  ASSIGN_OR_RETURN(const Budgeted before, FindBudget(of));
  ASSIGN_OR_RETURN(const Bytes in_force, Resize(of, bytes));
  const auto lent = lent_.find(of);
  Bytes original = before.budget;
  if (lent != lent_.end()) {
    original = lent->second.original;
    tasks_.Drop(lent->second.task);
    lent_.erase(lent);
  }
  if (hold) {
    const uint64_t loan = ++last_loan_;
    lent_[of] = {.original = original,
                 .loan = loan,
                 .task = tasks_.At(std::chrono::steady_clock::now() + *hold,
                                   [this, of, loan] { RestoreBudget(of, loan); })};
  }
  return in_force;
}

void ExpertCore::RestoreBudget(const ModelPool& of, uint64_t loan) {
  const auto turn = budget_turns_.Take([] { return true; });
  const auto lent = lent_.find(of);
  const std::optional<ModelInfo> info = ModelById(of.model);
  if (lent == lent_.end() || lent->second.loan != loan) return;
  if (!info) {
    lent_.erase(lent);
    return;
  }
  const Result<Bytes> restored = Resize(of, lent->second.original);
  if (restored) {
    log_.info("model {}: its budget in pool {} is {} again", info->name, Raw(of.pool),
              FormatSize(*restored));
    lent_.erase(lent);
    return;
  }
  if (of.pool == kDevicePool && restored.error().code == ErrorCode::kUnavailable) {
    log_.warn("model {}: its budget in pool {} is not restored: {}", info->name, Raw(of.pool),
              restored.error().message);
    lent_.erase(lent);  // nothing comes back to a device that is lost
    return;
  }
  log_.warn("model {}: its budget in pool {} is not restored yet: {}", info->name, Raw(of.pool),
            restored.error().message);
  lent->second.task = tasks_.At(std::chrono::steady_clock::now() + kTryAgain,
                                [this, of, loan] { RestoreBudget(of, loan); });
}

Result<ExpertCore::Budgeted> ExpertCore::FindBudget(const ModelPool& of) {
  Result<Budgeted> found = NotLoadedAnyMore();
  executor_.WithModel(of.model, [&](LoadedModel& model) {
    if (of.pool == kRamPool) {
      Arena* const ram = model.arena.get();
      SlotMemory* const shown = model.shown.get();
      found =
          Budgeted{.budget = model.budget, .memory = shown != nullptr ? shown : ram, .ram = ram};
    } else if (of.pool == kDevicePool && model.vram != nullptr) {
      found = Budgeted{.budget = model.vram->budget(), .memory = &model.vram->memory()};
    } else {
      found = Error{ErrorCode::kFailedPrecondition, Reason::kUnspecified,
                    fmt::format("model {} has no slots in pool {}; models[].vram gives it some on "
                                "a device, and the fallback vram:none says what is in the way",
                                model.name, Raw(of.pool))};
    }
  });
  return found;
}

Result<ArenaPlan> ExpertCore::PlanSlots(const ModelInfo& model, const Budgeted& budgeted,
                                        Bytes bytes) const {
  const ModelGeometry& geometry = *model.geometry;
  if (budgeted.ram == nullptr) {
    return VramPool::Plan(geometry, bytes, device_->description().granule);
  }
  RETURN_IF_ERROR(budgeted.ram->CheckResizable());
  const Bytes budget = ResolveBudget(bytes, geometry.TotalBytes());
  return PlanArena(geometry.size_classes, budget, geometry.top_k);
}

Result<Bytes> ExpertCore::Resize(const ModelPool& of, Bytes bytes) {
  const std::optional<ModelInfo> info = ModelById(of.model);
  if (!info) return NotLoadedAnyMore();
  ASSIGN_OR_RETURN(const Budgeted budgeted, FindBudget(of));
  ASSIGN_OR_RETURN(const ArenaPlan plan, PlanSlots(*info, budgeted, bytes));
  RETURN_IF_ERROR(CheckPlaces(plan, *budgeted.memory));
  ASSIGN_OR_RETURN(const std::vector<SlotRun> taken, TakeMissing(of, plan, budgeted));
  std::vector<uint32_t> slots;
  for (const ArenaRegion& region : plan.regions) slots.push_back(region.slots);
  if (const Status limited = executor_.LimitSlots(of, slots); !limited) {
    GiveBackRuns(taken, *budgeted.memory);
    return limited.error();
  }
  RETURN_IF_ERROR(GiveBackRetired(of, slots, *budgeted.memory));
  executor_.RestoreSlots(of, taken, plan.budget);
  if (of.pool == kRamPool) Preheat(of.model);
  return plan.total;
}

// Memory for slots that the plan has beyond those in use; nobody uses it yet.
Result<std::vector<SlotRun>> ExpertCore::TakeMissing(const ModelPool& of, const ArenaPlan& plan,
                                                     const Budgeted& budgeted) {
  const SlotUse use = executor_.TakeRetired(of);
  if (use.active.empty()) return NotLoadedAnyMore();
  std::vector<SlotRun> runs;
  Bytes wanted;
  for (size_t i = 0; i < plan.regions.size(); ++i) {
    const uint32_t slots = plan.regions[i].slots;
    const uint32_t missing = slots - std::min(slots, use.active[i]);
    AppendRuns(SizeClass{static_cast<uint8_t>(i)}, use.spare[i], missing, runs);
    wanted += plan.regions[i].slot_bytes * missing;
  }
  // Two that take memory at once would both find what one may take.
  const auto turn = load_turns_.Take([] { return true; });
  if (wanted > Bytes() && budgeted.ram != nullptr) {
    RETURN_IF_ERROR(CheckHost(wanted, *budgeted.ram));
  }
  RETURN_IF_ERROR(TakeRuns(runs, *budgeted.memory));
  return runs;
}

Status ExpertCore::CheckHost(Bytes wanted, const Arena& ram) const {
  ASSIGN_OR_RETURN(const MemoryLimits limits, ReadMemoryLimits(options_.arena.roots));
  RETURN_IF_ERROR(CheckBudget(
      limits, {.what = "the larger budget", .wanted = wanted, .reserve = options_.arena.reserve}));
  if (ram.pinned_bytes() == Bytes()) return Ok{};
  return CheckMemlock(limits, ram.pinned_bytes() + wanted);
}

// Waits until no more slots are in use than these.
Status ExpertCore::GiveBackRetired(const ModelPool& of, const std::vector<uint32_t>& slots,
                                   SlotMemory& memory) {
  while (true) {
    const SlotUse use = executor_.TakeRetired(of);
    if (use.active.empty()) return NotLoadedAnyMore();
    for (const auto& [size_class, slot] : use.retired) memory.GiveBack(size_class, slot);
    bool over = use.leaving > 0;
    for (size_t i = 0; i < slots.size(); ++i) over |= use.active[i] > slots[i];
    if (!over) return Ok{};
    const std::optional<ModelInfo> info = ModelById(of.model);
    if (!info || info->state != ModelState::kReady) return NotLoadedAnyMore();
    std::this_thread::sleep_for(kLookAgain);
  }
}

}  // namespace moetier
