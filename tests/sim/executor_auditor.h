#ifndef MOETIER_TESTS_SIM_EXECUTOR_AUDITOR_H_
#define MOETIER_TESTS_SIM_EXECUTOR_AUDITOR_H_

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tests/sim/sim_machine.h"

namespace moetier {

// Looks at the ledgers and at the memory after every event: what is resident has its own bytes, a
// free slot is nobody's (it holds garbage, so that a late reader or writer shows), slots add up, a
// copy into VRAM leaves none in RAM, and RAM gives up nothing that VRAM does not have. The first
// breach is kept.
class ExecutorAuditor {
 public:
  explicit ExecutorAuditor(SimMachine& machine) : machine_(machine) {}

  void Check();
  // What is pinned or leased.
  struct Held {
    std::set<ExpertKey> in_ram;
    std::set<ExpertKey> in_vram;
  };
  // When all is quiet.
  void CheckAtRest(const Held& held);
  // When no session is left, nothing is expected.
  void CheckNothingExpected();
  // The slot's memory has gone back to the host or to the device.
  void GivenBack(PoolId pool, SizeClass size_class, SlotIndex slot);

  void Report(std::string breach) {
    if (!breach_) breach_ = std::move(breach);
  }
  [[nodiscard]] const std::optional<std::string>& breach() const { return breach_; }

 private:
  enum class Pool : uint8_t { kRam, kVram };
  // The generation under which garbage was written to a free slot; by size class and slot.
  using Garbage = std::vector<std::vector<std::optional<uint32_t>>>;

  void CheckSlots(Pool pool, SizeClass size_class, const ResidencyLedger& ledger,
                  const LoadedModel& model);
  void CheckFree(Pool pool, SizeClass size_class, SlotIndex slot, uint32_t generation,
                 std::span<std::byte> memory);
  void CheckResident(Pool pool, const ExpertKey& key, std::span<const std::byte> memory);
  void CheckCounts(Pool pool, const ResidencyLedger& ledger);
  void CheckExclusive(const LoadedModel& model);
  void CheckDropped(const LoadedModel& model);
  std::optional<uint32_t>& GarbageOf(Pool pool, SizeClass size_class, SlotIndex slot);

  SimMachine& machine_;
  Garbage garbage_[2];
  std::set<ExpertKey> in_vram_;  // at the last look
  std::optional<std::string> breach_;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_EXECUTOR_AUDITOR_H_
