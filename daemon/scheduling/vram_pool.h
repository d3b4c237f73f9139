#ifndef MOETIER_DAEMON_SCHEDULING_VRAM_POOL_H_
#define MOETIER_DAEMON_SCHEDULING_VRAM_POOL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/memory_budget.h"
#include "base/result.h"
#include "tiers/device/device.h"
#include "tiers/residency_ledger.h"
#include "tiers/store/model_geometry.h"

namespace moetier {

// Which experts that were computed from RAM are copied to VRAM: all, or those that were so twice
// since they were last let in.
enum class VramAdmission : uint8_t { kAlways, kSecondTouch };

// One model's slots in a device's memory: a ledger a size class and the rule of entry. VRAM is
// exclusive of RAM: a copy that has landed gives the RAM slot up.
// Waves of these ledgers never wait: those of calls name what is resident, and a copy is asked for
// only where MayEnter says so.
// Threads:  built by whoever loads the model, then the executor's alone; but memory(), which stays
//           and whose size one thread at a time changes as DeviceArena says.
// Lifetime: the device outlives it; no copy or run may touch it at its end.
class VramPool {
 public:
  // Copies into the pool under way at one time: enough to keep the link busy, few enough that what
  // a call waits for does not stand behind many that nobody does.
  static constexpr uint32_t kMaxCopies = 4;
  static constexpr uint32_t kMaxWriteBacks = 4;  // each stands before a copy that somebody wants

  struct Options {
    MemoryBudget budget = Percent{100};  // at most what the device has left
    std::string budget_key;              // its name in messages
    std::string policy = "lru";          // tiers/eviction_policy.h names them
    VramAdmission admission = VramAdmission::kAlways;
  };
  // How a budget is divided; kExhausted as PlanArena says. A share of 100 % is room for all
  // records, with what granules take beside them.
  static Result<ArenaPlan> Plan(const ModelGeometry& geometry, const MemoryBudget& budget,
                                Bytes granule);
  // Where the device's driver has less memory than the budget says, what it has less an eighth,
  // which is left to who took it: less() says so. kExhausted when the device has no room for a slot
  // of each size class; whatever the device refuses with.
  static Result<std::unique_ptr<VramPool>> Create(const Options& options, ModelId model,
                                                  const ModelGeometry& geometry, Device& device);

  [[nodiscard]] ResidencyLedger& ledger(SizeClass size_class) const {
    return *classes_[Raw(size_class)].ledger;
  }
  [[nodiscard]] DeviceAddress Slot(SizeClass size_class, SlotIndex slot) const {
    return arena_->Slot(size_class, slot);
  }
  // Of the slot's first byte, from the arena's start.
  [[nodiscard]] uint64_t Offset(SizeClass size_class, SlotIndex slot) const {
    return arena_->Offset(size_class, slot);
  }
  [[nodiscard]] bool IsResident(SizeClass size_class, const ExpertKey& key) const {
    return ledger(size_class).StateOf(key) == SlotState::kResident;
  }

  // Whether calls may compute it here: it is resident, and more slots than the budget has are not
  // held up by new calls.
  [[nodiscard]] bool Serves(SizeClass size_class, const ExpertKey& key) const {
    const ResidencyLedger& here = ledger(size_class);
    const uint32_t active = here.place_count() - here.counts().retired;
    return active <= here.slot_count() && IsResident(size_class, key);
  }

  // An expert that is not here was computed from RAM: whether it is to be let in.
  [[nodiscard]] bool WantsIn(const ExpertKey& key);
  // Whether a copy of `key`, which is not resident, may begin now.
  [[nodiscard]] bool MayEnter(SizeClass size_class, const ExpertKey& key) const;

  // The copy of `key` into the slot begins. Gives the expert that was there, if one was: its bytes
  // are good until the copy runs.
  std::optional<ExpertKey> CopyBegins(SizeClass size_class, SlotIndex slot, const ExpertKey& key);
  // It has ended, and the ledger knows.
  void CopyEnded(SizeClass size_class, SlotIndex slot, const ExpertKey& key, DeviceOutcome outcome);
  // The slot retires. Gives the expert that was there, if one was: its bytes are good until
  // SlotVacated, which says that no copy reads them any more.
  std::optional<ExpertKey> SlotRetires(SizeClass size_class, SlotIndex slot);
  void SlotVacated(SizeClass size_class, SlotIndex slot);
  [[nodiscard]] uint32_t leaving() const { return leaving_; }  // retired, not vacated
  // Vacated slots, since the last look.
  std::vector<std::pair<SizeClass, SlotIndex>> TakeRetired() { return std::exchange(retired_, {}); }

  // The expert that leaves VRAM, and is not in RAM, is copied back there before it is overwritten,
  // or dropped.
  enum class Victim : uint8_t { kWrittenBack, kDropped };
  void NoteVictim(SizeClass size_class, Victim victim) {
    ++(victim == Victim::kDropped ? counters_.dropped_victims : counters_.written_back);
    if (victim == Victim::kWrittenBack) ++classes_[Raw(size_class)].write_backs;
  }
  void WriteBackEnded(SizeClass size_class) { --classes_[Raw(size_class)].write_backs; }
  // Under way.
  [[nodiscard]] uint32_t write_backs(SizeClass size_class) const {
    return classes_[Raw(size_class)].write_backs;
  }
  [[nodiscard]] uint32_t write_backs() const {
    uint32_t all = 0;
    for (const Class& each : classes_) all += each.write_backs;
    return all;
  }
  // `experts` picked experts of a piece were not here.
  void NoteAbsent(SizeClass size_class, uint64_t experts) {
    classes_[Raw(size_class)].absent += experts;
  }

  struct Counters {
    uint64_t copies_in = 0;        // that landed
    uint64_t failed_copies = 0;    // the experts stayed in RAM
    uint64_t written_back = 0;     // victims whose copy to RAM began
    uint64_t dropped_victims = 0;  // victims that the drive alone has
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }
  // Picked experts that were not here, per (request, expert).
  [[nodiscard]] uint64_t absent(size_t size_class) const { return classes_[size_class].absent; }
  [[nodiscard]] size_t class_count() const { return classes_.size(); }
  [[nodiscard]] DeviceArena& memory() const { return *arena_; }
  [[nodiscard]] Bytes size() const { return arena_->size(); }
  [[nodiscard]] Bytes budget() const { return budget_; }
  void set_budget(Bytes budget) { budget_ = budget; }
  // Why it was created with less than its budget and the device's, if it was.
  [[nodiscard]] const std::optional<std::string>& less() const { return less_; }

 private:
  struct Class {
    std::unique_ptr<ResidencyLedger> ledger;
    std::vector<std::optional<ExpertKey>> occupants;  // by slot: whose bytes were last landed there
    uint64_t absent = 0;
    uint32_t write_backs = 0;  // under way
  };

  VramPool(VramAdmission admission, Bytes budget) : admission_(admission), budget_(budget) {}

  const VramAdmission admission_;
  Bytes budget_;
  std::optional<std::string> less_;
  std::unique_ptr<DeviceArena> arena_;
  std::vector<Class> classes_;
  std::unordered_set<ExpertKey> touched_;  // kSecondTouch: once
  uint32_t copies_ = 0;                    // into the pool, under way
  uint32_t leaving_ = 0;
  std::vector<std::pair<SizeClass, SlotIndex>> retired_;
  Counters counters_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_VRAM_POOL_H_
