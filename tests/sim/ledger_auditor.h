#ifndef MOETIER_TESTS_SIM_LEDGER_AUDITOR_H_
#define MOETIER_TESTS_SIM_LEDGER_AUDITOR_H_

#include <fmt/core.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/fake_reader.h"
#include "tests/sim/ledger_port.h"

namespace moetier {

// Keeps its own books of what was asked and answered, and compares them with the ledger's and with
// the memory after every step. Knows nothing of how the ledger works; the first breach is kept.
class LedgerAuditor {
 public:
  struct WaveRecord {
    SizeClass size_class{};
    std::vector<ExpertKey> keys;
    Tenure tenure = Tenure::kCall;
    enum class Answer : uint8_t { kNone, kReady, kFailed };
    struct KeyRecord {
      Answer answer = Answer::kNone;
      SlotIndex slot{};
    };
    std::vector<KeyRecord> answers;
    size_t unanswered = 0;
  };
  using Waves = std::map<WaveId, WaveRecord>;  // in the order of asking: ids rise

  // kEffects: only what a client or the memory would notice. kAll: the ledger's own counts and
  // views must agree with that too. A canary has to be caught by its effects, since a ledger that
  // is broken may count wrong as well.
  enum class Scope : uint8_t { kEffects, kAll };

  LedgerAuditor(const FakeReader& reader, Scope scope) : reader_(reader), scope_(scope) {}

  // Before the step.
  void Stepping(const LedgerEvent& event);
  void Reserved(SizeClass size_class, const ReserveWave& event);
  void Released(WaveId wave) { waves_.erase(wave); }
  void Failed(const ExpertKey& key) { failed_.insert(key); }
  // A copy out of the key's slot, which is resident, begins and ends.
  void CopyBegan(SizeClass size_class, const ExpertKey& key, SlotIndex slot) {
    copies_[size_class].emplace(key, slot);
  }
  void CopyEnded(SizeClass size_class, const ExpertKey& key) {
    auto& copies = copies_[size_class];
    copies.erase(copies.find(key));
  }
  void Restored(SizeClass size_class, SlotIndex slot);  // before the step

  // Commands of the step, one by one, before they are obeyed.
  void Started(SizeClass size_class, const StartRead& start);
  void Evicted(SizeClass size_class, const KeyEvicted& evicted);
  void Retired(SizeClass size_class, SlotIndex slot);
  void Answered(const KeyReady& ready);
  void Answered(const KeyFailed& failed);

  // After the step and all its commands.
  void Check(SizeClass size_class, const ResidencyLedger& ledger);
  // When everything was released and every read has ended.
  void CheckAtRest(const ResidencyLedger& ledger);

  void Report(std::string breach) {
    if (!breach_) breach_ = std::move(breach);
  }
  [[nodiscard]] const std::optional<std::string>& breach() const { return breach_; }
  [[nodiscard]] const Waves& waves() const { return waves_; }  // not yet released

 private:
  // The wave, if the answer may be: known, in range, not answered before.
  WaveRecord* Answerable(WaveId wave, uint32_t index);
  void CheckStartedPrefetch(SizeClass size_class, const StartRead& start);
  void CheckVictimTold(SizeClass size_class, SlotIndex slot);
  void CheckUsedBytes(SizeClass size_class);
  void CheckCopiedBytes(SizeClass size_class);
  void CheckOrder(SizeClass size_class);
  void CheckUrgency(SizeClass size_class);
  void CheckSlots(SizeClass size_class, const ResidencyLedger& ledger);
  void CheckReservations(SizeClass size_class, const ResidencyLedger& ledger);
  void CheckQueue(SizeClass size_class, const ResidencyLedger& ledger);
  void CheckPrefetches(SizeClass size_class, const ResidencyLedger& ledger);
  [[nodiscard]] const FakeReader::Read* ReadInto(SizeClass size_class, SlotIndex slot) const;
  // Keys that the wave is not told of yet and that are not on their way.
  [[nodiscard]] bool Lacks(const WaveRecord& wave) const;
  [[nodiscard]] bool IsOnItsWay(SizeClass size_class, const ExpertKey& key) const;

  const FakeReader& reader_;
  const Scope scope_;
  Waves waves_;
  std::map<SizeClass, std::multimap<ExpertKey, SlotIndex>> copies_;  // under way
  std::set<std::pair<SizeClass, SlotIndex>> retired_;
  // Who was told that the slot is theirs, and not yet that it is no more.
  std::map<std::pair<SizeClass, SlotIndex>, ExpertKey> told_ready_;
  // The newest read into each slot whose bytes were evicted.
  std::map<std::pair<SizeClass, SlotIndex>, uint32_t> told_evicted_;
  std::set<ExpertKey> failed_;           // keys that failed once at least
  std::optional<ExpertKey> guessed_;     // in this step
  std::optional<WaveId> last_answered_;  // of this step, the newest wave
  std::optional<std::string> breach_;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_LEDGER_AUDITOR_H_
