#include "tests/sim/executor_auditor.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace moetier {
namespace {

constexpr std::byte kGarbage{0xFF};
constexpr size_t kSample = 16;  // bytes looked at in a few places: each record's are its own

std::array<size_t, 3> SamplesOf(size_t bytes) { return {0, bytes / 2, bytes - kSample}; }

const char* NameOf(bool vram) { return vram ? "VRAM" : "RAM"; }

}  // namespace

void ExecutorAuditor::Check() {
  if (machine_.breach()) Report(*machine_.breach());
  const LoadedModel* const model = machine_.model();
  if (model == nullptr || breach_) return;
  const bool vram = model->vram && !machine_.device()->lost();
  for (size_t i = 0; i < model->ledgers.size(); ++i) {
    const SizeClass size_class{static_cast<uint8_t>(i)};
    CheckSlots(Pool::kRam, size_class, *model->ledgers[i], *model);
    CheckCounts(Pool::kRam, *model->ledgers[i]);
    if (vram) CheckSlots(Pool::kVram, size_class, model->vram->ledger(size_class), *model);
    if (vram) CheckCounts(Pool::kVram, model->vram->ledger(size_class));
  }
  if (vram) CheckExclusive(*model);
  if (vram) CheckDropped(*model);
}

void ExecutorAuditor::CheckSlots(Pool pool, SizeClass size_class, const ResidencyLedger& ledger,
                                 const LoadedModel& model) {
  for (uint32_t i = 0; i < ledger.place_count() && !breach_; ++i) {
    const SlotIndex slot{i};
    const ResidencyLedger::SlotView view = ledger.View(slot);
    if (view.state == SlotState::kLoading || view.state == SlotState::kDraining) continue;
    std::span<std::byte> memory = model.arena->Slot(size_class, slot);
    if (pool == Pool::kVram) {
      const DeviceAddress address = model.vram->Slot(size_class, slot);
      if (machine_.device()->IsCopying(address)) continue;
      memory = machine_.device()->Memory(address, memory.size());
    }
    if (view.state == SlotState::kResident) {
      CheckResident(pool, view.key, memory);
    } else {
      CheckFree(pool, size_class, slot, view.generation, memory);
    }
  }
}

void ExecutorAuditor::CheckResident(Pool pool, const ExpertKey& key,
                                    std::span<const std::byte> memory) {
  const std::span<const std::byte> truth = machine_.sim_model.Record(key);
  for (const size_t at : SamplesOf(truth.size())) {
    if (std::memcmp(memory.data() + at, truth.data() + at, kSample) == 0) continue;
    return Report(fmt::format("{} is resident in {} with other bytes at {}", ToString(key),
                              NameOf(pool == Pool::kVram), at));
  }
}

void ExecutorAuditor::CheckFree(Pool pool, SizeClass size_class, SlotIndex slot,
                                uint32_t generation, std::span<std::byte> memory) {
  std::optional<uint32_t>& garbage = GarbageOf(pool, size_class, slot);
  if (garbage != generation) {
    garbage = generation;
    std::ranges::fill(memory, kGarbage);
    return;
  }
  for (const size_t at : SamplesOf(memory.size() / 2)) {
    const auto sample = memory.subspan(at, kSample);
    if (std::ranges::all_of(sample, [](std::byte each) { return each == kGarbage; })) continue;
    return Report(fmt::format("somebody wrote to free slot {} of {}, class {}", Raw(slot),
                              NameOf(pool == Pool::kVram), Raw(size_class)));
  }
}

std::optional<uint32_t>& ExecutorAuditor::GarbageOf(Pool pool, SizeClass size_class,
                                                    SlotIndex slot) {
  Garbage& garbage = garbage_[static_cast<size_t>(pool)];
  if (garbage.size() <= Raw(size_class)) garbage.resize(Raw(size_class) + 1u);
  auto& slots = garbage[Raw(size_class)];
  if (slots.size() <= Raw(slot)) slots.resize(Raw(slot) + 1u);
  return slots[Raw(slot)];
}

void ExecutorAuditor::GivenBack(PoolId pool, SizeClass size_class, SlotIndex slot) {
  const LoadedModel& model = *machine_.model();
  std::span<std::byte> memory = model.arena->Slot(size_class, slot);
  if (pool == kDevicePool) {
    const DeviceAddress address = model.vram->Slot(size_class, slot);
    memory = machine_.device()->Memory(address, memory.size());
    if (machine_.device()->IsInUse(address)) {
      Report(fmt::format("slot {} of VRAM is given back and in use", Raw(slot)));
    }
  }
  std::ranges::fill(memory, kGarbage);
}

void ExecutorAuditor::CheckCounts(Pool pool, const ResidencyLedger& ledger) {
  const LedgerCounts counts = ledger.counts();
  const uint32_t slots =
      counts.free + counts.loading + counts.resident + counts.draining + counts.retired;
  if (slots == ledger.place_count() && counts.reserved <= counts.resident + counts.loading) return;
  Report(fmt::format("{}: {} slots are accounted for of {}, {} reserved",
                     NameOf(pool == Pool::kVram), slots, ledger.place_count(), counts.reserved));
}

// Where an expert has come to VRAM since the last look, RAM has it only as long as somebody holds
// it there.
void ExecutorAuditor::CheckExclusive(const LoadedModel& model) {
  std::set<ExpertKey> there;
  for (const ExpertKey& key : machine_.sim_model.keys()) {
    const SizeClass size_class = machine_.sim_model.ClassOf(key);
    if (!model.vram->IsResident(size_class, key)) continue;
    there.insert(key);
    const ResidencyLedger& ram = *model.ledgers[Raw(size_class)];
    if (in_vram_.contains(key) || ram.StateOf(key) != SlotState::kResident) continue;
    if (ram.View(*ram.SlotOf(key)).reservations > 0) continue;
    Report(fmt::format("{} has come to VRAM and RAM keeps it", ToString(key)));
  }
  in_vram_ = std::move(there);
}

// What waits to be given up by RAM is in VRAM: else the drive alone has it.
void ExecutorAuditor::CheckDropped(const LoadedModel& model) {
  for (size_t i = 0; i < model.ledgers.size(); ++i) {
    const SizeClass size_class{static_cast<uint8_t>(i)};
    for (uint32_t slot = 0; slot < model.ledgers[i]->place_count(); ++slot) {
      const ResidencyLedger::SlotView view = model.ledgers[i]->View(SlotIndex{slot});
      if (!view.dropped || model.vram->IsResident(size_class, view.key)) continue;
      Report(fmt::format("RAM is to give {} up, which has left VRAM", ToString(view.key)));
    }
  }
}

void ExecutorAuditor::CheckAtRest(const Held& held) {
  if (const auto left = machine_.stepped.UnderWay()) Report(fmt::format("at rest, {}", *left));
  const LoadedModel* const model = machine_.model();
  if (model == nullptr) return;
  size_t reserved = 0;
  size_t reserved_in_vram = 0;
  for (size_t i = 0; i < model->ledgers.size(); ++i) {
    const ResidencyLedger& ram = *model->ledgers[i];
    const LedgerCounts counts = ram.counts();
    reserved += counts.reserved;
    if (counts.loading + counts.draining + counts.waiting_waves != 0 ||
        counts.held != counts.reserved || counts.granted_waves != model->pinned[i] ||
        model->kept_in_ram[i].kept != model->kept_in_ram[i].leased) {
      Report(
          fmt::format("at rest, RAM class {} has {} loading, {} draining, {} waves waiting and {} "
                      "granted, {} reserved, {} held, {} pinned, {} kept, {} leased",
                      i, counts.loading, counts.draining, counts.waiting_waves,
                      counts.granted_waves, counts.reserved, counts.held, model->pinned[i],
                      model->kept_in_ram[i].kept, model->kept_in_ram[i].leased));
    }
    const uint64_t ended =
        counts.prefetch_used + counts.prefetch_wasted + counts.preheat_used + counts.preheat_wasted;
    if (counts.prefetched + counts.preheated > ended + counts.resident) {
      Report("at rest, prefetches do not add up");
    }
    if (!model->vram) continue;
    const LedgerCounts there = model->vram->ledger(SizeClass{static_cast<uint8_t>(i)}).counts();
    reserved_in_vram += there.reserved;
    const KeptSlots& kept = model->kept_in_vram[i];
    if (there.loading + there.draining + there.granted_waves + there.waiting_waves != 0 ||
        kept.kept != kept.leased) {
      Report(fmt::format("at rest, VRAM class {} has {} loading, {} draining, {} kept, {} leased",
                         i, there.loading, there.draining, kept.kept, kept.leased));
    }
  }
  if (reserved != held.in_ram.size() || reserved_in_vram != held.in_vram.size()) {
    Report(
        fmt::format("at rest, {} slots are reserved in RAM and {} in VRAM; {} experts are "
                    "pinned or leased in RAM and {} in VRAM",
                    reserved, reserved_in_vram, held.in_ram.size(), held.in_vram.size()));
  }
  if (!model->filling.empty()) Report("at rest, what was masked is being read");
  if (model->vram && model->vram->write_backs() + model->vram->leaving() != 0) {
    Report("at rest, write-backs are counted");
  }
  if (model->reads_in_flight + model->device_work != 0) {
    Report(fmt::format("at rest, {} reads and {} pieces of device work are counted",
                       model->reads_in_flight, model->device_work));
  }
}

void ExecutorAuditor::CheckNothingExpected() {
  const LoadedModel* const model = machine_.model();
  if (const uint32_t expected = machine_.stepped.expected(kSimModel); expected != 0) {
    Report(fmt::format("without sessions, {} experts are expected", expected));
  }
  for (const auto& ledger : model->ledgers) {
    for (uint32_t slot = 0; slot < ledger->place_count(); ++slot) {
      const ResidencyLedger::SlotView view = ledger->View(SlotIndex{slot});
      if (view.expected) {
        Report(fmt::format("without sessions, {} is kept as expected", ToString(view.key)));
      }
    }
  }
}

}  // namespace moetier
