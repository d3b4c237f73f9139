#ifndef MOETIER_TESTS_SIM_SIM_PLACES_H_
#define MOETIER_TESTS_SIM_SIM_PLACES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "daemon/scheduling/residency_calls.h"
#include "tests/sim/sim_machine.h"
#include "tiers/residency_ledger.h"

namespace moetier {

// What the ledgers and the memory say of an expert in a pool at this moment: the truth that leases,
// transfers and their refusals are compared with.
// Threads: one.
class SimPlaces {
 public:
  explicit SimPlaces(SimMachine& machine) : machine_(machine) {}

  // Null: there are no slots, or no model.
  [[nodiscard]] const ResidencyLedger* LedgerOf(PoolId pool, SizeClass size_class) const;
  // kAbsent in a pool that is lost, as far as the executor knows.
  [[nodiscard]] SlotState StateOf(PoolId pool, const ExpertKey& key) const;
  // Of the slot where it is resident.
  [[nodiscard]] std::optional<uint32_t> GenerationOf(PoolId pool, const ExpertKey& key) const;
  [[nodiscard]] bool IsQuarantined(const ExpertKey& key) const;
  // Sessions and pins have all that calls leave them of the pool, for the key's size class: what
  // comes now is refused. A lease, unlike a transfer, also leaves what waits its slots.
  enum class For : uint8_t { kLease, kTransfer };
  [[nodiscard]] bool IsFull(PoolId pool, const ExpertKey& key, For comes) const;
  [[nodiscard]] Bytes ChargeOf(const ExpertKey& key) const;

  // What is not as it must be where the key is resident; none where all is.
  [[nodiscard]] std::optional<std::string> CheckResident(PoolId pool, const ExpertKey& key) const;
  // Likewise of a lease: held, in its place, with all of its bytes.
  [[nodiscard]] std::optional<std::string> CheckLease(const ExpertKey& key,
                                                      const SlotLease& lease) const;
  // The bytes of a slot; empty when they are lost.
  [[nodiscard]] std::span<std::byte> MemoryOf(PoolId pool, SizeClass size_class,
                                              SlotIndex slot) const;
  // Keys that have left a slot of the pools, whatever the reason, since the model came.
  [[nodiscard]] uint64_t evictions() const;

  // The pools, those without slots too.
  static constexpr PoolId kPools[] = {kRamPool, kDevicePool};

 private:
  [[nodiscard]] std::optional<std::string> CheckBytes(PoolId pool, const ExpertKey& key,
                                                      SlotIndex slot) const;
  [[nodiscard]] uint64_t OffsetOf(PoolId pool, SizeClass size_class, SlotIndex slot) const;

  SimMachine& machine_;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_SIM_PLACES_H_
