#ifndef MOETIER_TESTS_SIM_LEDGER_WORLD_H_
#define MOETIER_TESTS_SIM_LEDGER_WORLD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/canaries.h"
#include "tests/sim/fake_reader.h"
#include "tests/sim/ledger_auditor.h"
#include "tests/sim/ledger_port.h"
#include "tests/support/random.h"

namespace moetier {

// A small daemon with clients, a drive and the two ledgers of one model, all driven by one seed:
// what happens next is always its choice.
class LedgerWorld {
 public:
  LedgerWorld(uint64_t seed, Canary canary);

  // Plays the seed to its end; what was wrong first, if anything.
  std::optional<std::string> Run();

  [[nodiscard]] uint64_t steps() const { return steps_; }

 private:
  // Holds a resident expert: Tenure::kCall for a copy to another tier, kHeld for a lease.
  struct Copy {
    SizeClass size_class{};
    ExpertKey key;
    Tenure tenure = Tenure::kCall;
  };
  // What one size class of this world allows, so that progress is always possible.
  struct ClassLimits {
    std::vector<ExpertKey> keys;
    uint32_t slots = 0;  // all of them, retired or not
    uint32_t largest_wave = 0;
    uint32_t most_held = 0;  // keys of held waves and leases; the limit less the largest wave
    uint32_t held = 0;
  };

  std::unique_ptr<LedgerPort> MakeLedgers();
  void PlayOneEvent();
  void AskForWave();
  [[nodiscard]] std::vector<ExpertKey> ChooseKeys(const ClassLimits& limits, uint32_t count);
  void ReleaseSome();
  void EndSession(uint32_t client);
  void AdvanceReader(const FakeReader::Faults& faults);
  void RepeatOldCompletion();
  void LiftSome();
  void GuessSome();
  void StopGuessingSome();
  // Another tier copies a resident expert, and may have it in the end; or a client leases it.
  void BeginCopy();
  void EndCopy(size_t chosen);
  void TouchSome();
  void DropSome();
  void Shrink();
  void Grow();
  void AllowWaves(ClassLimits& limits, uint32_t slots);
  // Faults are over: every wave must be answered and every slot come back.
  void ComeToRest();

  void Release(WaveId wave);
  void Step(SizeClass size_class, const LedgerEvent& event);
  void Obey(SizeClass size_class, const LedgerCommand& command);

  const Canary canary_;
  Random random_;
  FakeReader::Faults faults_;
  PerClass<ClassLimits> limits_;
  std::unique_ptr<LedgerPort> port_;
  std::unique_ptr<FakeReader> reader_;
  std::unique_ptr<LedgerAuditor> auditor_;
  uint32_t clients_ = 1;
  std::map<WaveId, uint32_t> owner_;  // client of each wave that is not released
  std::vector<Copy> copies_;          // under way, to another tier, and leases
  std::vector<FakeReader::Completion> past_;
  CommandList commands_;
  uint64_t last_wave_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_LEDGER_WORLD_H_
