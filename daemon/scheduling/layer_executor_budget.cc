// LayerExecutor's side of a live budget: how many slots a model's calls may use in a pool, and
// which slots nobody uses any more.

#include <algorithm>
#include <utility>

#include "daemon/scheduling/layer_executor.h"

namespace moetier {
namespace {

uint32_t ActiveSlots(const ResidencyLedger& ledger) {
  return ledger.place_count() - ledger.counts().retired;
}

// By size class; empty when the model has no slots in the pool.
std::vector<const ResidencyLedger*> LedgersIn(PoolId pool, const LoadedModel& model) {
  std::vector<const ResidencyLedger*> ledgers;
  if (pool == kRamPool) {
    for (const auto& ledger : model.ledgers) ledgers.push_back(ledger.get());
  } else if (model.vram != nullptr) {
    for (size_t i = 0; i < model.vram->class_count(); ++i) {
      ledgers.push_back(&model.vram->ledger(SizeClass{static_cast<uint8_t>(i)}));
    }
  }
  return ledgers;
}

// Slots of the class with these pins and leases, and in RAM room beside them for the calls that are
// kept in play: calls can do without VRAM.
Status CheckHeldFit(PoolId pool, const LoadedModel& model, size_t size_class, uint32_t slots) {
  const bool in_ram = pool == kRamPool;
  const uint32_t pinned = in_ram ? model.pinned[size_class] : 0;
  const uint32_t leased = model.KeptIn(pool)[size_class].kept;
  const uint32_t held = pinned + leased;
  const uint32_t needed = held == 0 || !in_ram ? held : held + model.SlotsForCalls();
  if (slots >= needed) return Ok{};
  return Error{
      ErrorCode::kExhausted, Reason::kNoRoom,
      fmt::format("{} slots of the size class would be left, {} are pinned, {} are leased to "
                  "sessions and {} are kept for calls; unpin {}, end sessions that lease them or "
                  "leave a larger budget",
                  slots, pinned, leased, needed - held, needed - slots)};
}

Error NotLoaded() {
  return {ErrorCode::kNotFound, Reason::kUnknownModel, "the model is not loaded"};
}

}  // namespace

void LayerExecutor::StepIn(PoolId pool, LoadedModel& model, SizeClass size_class,
                           const LedgerEvent& event) {
  if (pool == kRamPool) return Step(model, size_class, event);
  StepVram(model, size_class, event);
}

Status LayerExecutor::LimitSlots(const ModelPool& of, const std::vector<uint32_t>& slots) {
  Status limited = Ok{};
  const bool there = WithModel(of.model, [&](LoadedModel& model) {
    const std::vector<const ResidencyLedger*> ledgers = LedgersIn(of.pool, model);
    if (ledgers.empty()) {
      limited = NotLoaded();
      return;
    }
    for (size_t i = 0; i < slots.size() && limited; ++i) {
      limited = CheckHeldFit(of.pool, model, i, slots[i]);
    }
    if (!limited) return;
    for (size_t i = 0; i < slots.size(); ++i) {
      const uint32_t limit = std::min(slots[i], ActiveSlots(*ledgers[i]));
      StepIn(of.pool, model, SizeClass{static_cast<uint8_t>(i)},
             moetier::LimitSlots{.limit = limit});
    }
    NoteLeasable(model);
  });
  if (!there) return NotLoaded();
  return limited;
}

SlotUse LayerExecutor::TakeRetired(const ModelPool& of) {
  SlotUse use;
  WithModel(of.model, [&](LoadedModel& model) {
    for (const ResidencyLedger* ledger : LedgersIn(of.pool, model)) {
      use.active.push_back(ActiveSlots(*ledger));
      use.spare.push_back(ledger->RetiredSlots());
    }
    if (of.pool == kRamPool) {
      use.retired = std::exchange(model.retired, {});
    } else if (model.vram != nullptr) {
      use.retired = model.vram->TakeRetired();
      use.leaving = model.vram->leaving();
    }
  });
  return use;
}

void LayerExecutor::RestoreSlots(const ModelPool& of, const std::vector<SlotRun>& runs,
                                 Bytes budget) {
  WithModel(of.model, [&](LoadedModel& model) {
    for (const SlotRun& run : runs) {
      StepIn(of.pool, model, run.size_class,
             moetier::RestoreSlots{.first = run.first, .count = run.count});
    }
    if (of.pool == kRamPool) {
      model.budget = budget;
    } else {
      model.vram->set_budget(budget);
    }
    NoteLeasable(model);
  });
}

}  // namespace moetier
