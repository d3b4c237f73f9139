// LayerExecutor's side of a live budget: how many slots a model's calls may use, and which slots
// nobody uses any more.

#include <algorithm>
#include <utility>

#include "daemon/scheduling/layer_executor.h"

namespace moetier {
namespace {

uint32_t ActiveSlots(const ResidencyLedger& ledger) {
  return ledger.place_count() - ledger.counts().retired;
}

// Slots of the class with these pins and leases, and room beside them for the calls that are kept
// in play.
Status CheckHeldFit(const LoadedModel& model, size_t size_class, uint32_t slots) {
  const uint32_t pinned = model.pinned[size_class];
  const uint32_t leased = model.kept_in_ram[size_class].kept;
  const uint32_t held = pinned + leased;
  const uint32_t needed = held == 0 ? 0 : held + model.SlotsForCalls();
  if (slots >= needed) return Ok{};
  return Error{
      ErrorCode::kExhausted, Reason::kNoRoom,
      fmt::format("{} slots of the size class would be left, {} are pinned, {} are leased to "
                  "sessions and {} are kept for calls; unpin {}, end sessions that lease them or "
                  "leave a larger budget",
                  slots, pinned, leased, needed - held, needed - slots)};
}

}  // namespace

Status LayerExecutor::LimitSlots(ModelId id, const std::vector<uint32_t>& slots) {
  Status limited = Ok{};
  const bool there = WithModel(id, [&](LoadedModel& model) {
    for (size_t i = 0; i < slots.size() && limited; ++i) limited = CheckHeldFit(model, i, slots[i]);
    if (!limited) return;
    for (size_t i = 0; i < slots.size(); ++i) {
      const uint32_t limit = std::min(slots[i], ActiveSlots(*model.ledgers[i]));
      Step(model, SizeClass{static_cast<uint8_t>(i)}, moetier::LimitSlots{.limit = limit});
    }
    NoteLeasable(model);
  });
  if (!there) return Error{ErrorCode::kNotFound, Reason::kUnknownModel, "the model is not loaded"};
  return limited;
}

LayerExecutor::SlotUse LayerExecutor::TakeRetired(ModelId id) {
  SlotUse use;
  WithModel(id, [&](LoadedModel& model) {
    use.retired = std::exchange(model.retired, {});
    for (const auto& ledger : model.ledgers) {
      use.active.push_back(ActiveSlots(*ledger));
      use.spare.push_back(ledger->RetiredSlots());
    }
  });
  return use;
}

void LayerExecutor::RestoreSlots(ModelId id, const std::vector<SlotRun>& runs, Bytes budget) {
  WithModel(id, [&](LoadedModel& model) {
    for (const SlotRun& run : runs) {
      Step(model, run.size_class, moetier::RestoreSlots{.first = run.first, .count = run.count});
    }
    model.budget = budget;
    NoteLeasable(model);
  });
}

}  // namespace moetier
