#include "tests/sim/sim_places.h"

#include <fmt/core.h>

#include <algorithm>

namespace moetier {
namespace {

const char* NameOf(PoolId pool) { return pool == kRamPool ? "RAM" : "VRAM"; }

}  // namespace

const ResidencyLedger* SimPlaces::LedgerOf(PoolId pool, SizeClass size_class) const {
  const LoadedModel* const model = machine_.model();
  if (model == nullptr) return nullptr;
  if (pool == kRamPool) return model->ledgers[Raw(size_class)].get();
  return model->vram ? &model->vram->ledger(size_class) : nullptr;
}

SlotState SimPlaces::StateOf(PoolId pool, const ExpertKey& key) const {
  if (pool == kDevicePool && machine_.IsLossKnown()) return SlotState::kAbsent;
  const ResidencyLedger* const ledger = LedgerOf(pool, machine_.sim_model.ClassOf(key));
  return ledger == nullptr ? SlotState::kAbsent : ledger->StateOf(key);
}

std::optional<uint32_t> SimPlaces::GenerationOf(PoolId pool, const ExpertKey& key) const {
  if (StateOf(pool, key) != SlotState::kResident) return std::nullopt;
  const ResidencyLedger& ledger = *LedgerOf(pool, machine_.sim_model.ClassOf(key));
  return ledger.View(*ledger.SlotOf(key)).generation;
}

bool SimPlaces::IsQuarantined(const ExpertKey& key) const {
  const LoadedModel* const model = machine_.model();
  return model != nullptr && model->quarantine.contains(key);
}

bool SimPlaces::IsFull(PoolId pool, const ExpertKey& key, For comes) const {
  const SizeClass size_class = machine_.sim_model.ClassOf(key);
  const LoadedModel& model = *machine_.model();
  const ResidencyLedger& ledger = *LedgerOf(pool, size_class);
  if (pool == kDevicePool) return model.kept_in_vram[Raw(size_class)].kept >= ledger.slot_count();
  const uint32_t waiting = comes == For::kLease ? ledger.LargestWaiting() : 0;
  const uint32_t for_calls = std::max(model.SlotsForCalls(), waiting);
  return model.pinned[Raw(size_class)] + model.kept_in_ram[Raw(size_class)].kept + for_calls >=
         ledger.slot_count();
}

Bytes SimPlaces::ChargeOf(const ExpertKey& key) const {
  const ModelGeometry& geometry = machine_.sim_model.geometry();
  return geometry.size_classes[Raw(machine_.sim_model.ClassOf(key))].slot_bytes;
}

std::span<std::byte> SimPlaces::MemoryOf(PoolId pool, SizeClass size_class, SlotIndex slot) const {
  const LoadedModel& model = *machine_.model();
  const std::span<std::byte> in_ram = model.arena->Slot(size_class, slot);
  if (pool == kRamPool) return in_ram;
  if (machine_.device()->lost()) return {};
  return machine_.device()->Memory(model.vram->Slot(size_class, slot), in_ram.size());
}

std::optional<std::string> SimPlaces::CheckBytes(PoolId pool, const ExpertKey& key,
                                                 SlotIndex slot) const {
  const SizeClass size_class = machine_.sim_model.ClassOf(key);
  const std::span<const std::byte> truth = machine_.sim_model.Record(key);
  const std::span<const std::byte> memory = MemoryOf(pool, size_class, slot);
  if (memory.empty() || std::ranges::equal(memory.first(truth.size()), truth)) return std::nullopt;
  return fmt::format("{} in slot {} of {} has other bytes", ToString(key), Raw(slot), NameOf(pool));
}

std::optional<std::string> SimPlaces::CheckResident(PoolId pool, const ExpertKey& key) const {
  const ResidencyLedger* const ledger = LedgerOf(pool, machine_.sim_model.ClassOf(key));
  if (ledger == nullptr || ledger->StateOf(key) != SlotState::kResident) {
    return fmt::format("{} is not resident in {}", ToString(key), NameOf(pool));
  }
  return CheckBytes(pool, key, *ledger->SlotOf(key));
}

uint64_t SimPlaces::OffsetOf(PoolId pool, SizeClass size_class, SlotIndex slot) const {
  const LoadedModel& model = *machine_.model();
  const auto address = [&](SizeClass of, SlotIndex at) {
    return pool == kRamPool ? reinterpret_cast<uint64_t>(model.arena->Slot(of, at).data())
                            : Raw(model.vram->Slot(of, at));
  };
  const uint64_t first = pool == kRamPool ? model.arena->Offset(SizeClass{0}, SlotIndex{0})
                                          : model.vram->Offset(SizeClass{0}, SlotIndex{0});
  return first + address(size_class, slot) - address(SizeClass{0}, SlotIndex{0});
}

std::optional<std::string> SimPlaces::CheckLease(const ExpertKey& key,
                                                 const SlotLease& lease) const {
  const SizeClass size_class = machine_.sim_model.ClassOf(key);
  const ResidencyLedger* const ledger = LedgerOf(lease.pool, size_class);
  const std::string what =
      fmt::format("lease {} of {} in slot {} of {}, generation {},", Raw(lease.lease),
                  ToString(key), Raw(lease.slot), NameOf(lease.pool), lease.generation);
  if (ledger == nullptr) return what + " outlives its model";
  const ResidencyLedger::SlotView view = ledger->View(lease.slot);
  if (view.state != SlotState::kResident || view.key != key ||
      view.generation != lease.generation) {
    return fmt::format("{} finds state {} and generation {}", what, static_cast<int>(view.state),
                       view.generation);
  }
  if (view.reservations == 0) return what + " holds nothing";
  if (lease.offset != OffsetOf(lease.pool, size_class, lease.slot)) return what + " lies elsewhere";
  if (lease.bytes != machine_.sim_model.Record(key).size()) return what + " has another size";
  if (const auto wrong = CheckBytes(lease.pool, key, lease.slot)) return what + " " + *wrong;
  return std::nullopt;
}

uint64_t SimPlaces::evictions() const {
  uint64_t evictions = 0;
  const size_t classes = machine_.sim_model.geometry().size_classes.size();
  for (const PoolId pool : kPools) {
    for (uint8_t i = 0; i < classes; ++i) {
      const ResidencyLedger* const ledger = LedgerOf(pool, SizeClass{i});
      if (ledger == nullptr) continue;
      evictions += ledger->counts().evictions + ledger->counts().dropped;
    }
  }
  return evictions;
}

}  // namespace moetier
