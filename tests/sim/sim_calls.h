#ifndef MOETIER_TESTS_SIM_SIM_CALLS_H_
#define MOETIER_TESTS_SIM_SIM_CALLS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/executor_auditor.h"
#include "tests/sim/executor_canaries.h"
#include "tests/sim/sim_machine.h"
#include "tests/sim/sim_source.h"
#include "tests/sim/sim_trace.h"
#include "tests/support/random.h"

namespace moetier {

// The sessions: what they ask for, and whether each answer is what it must be, comes once, and is
// an error only for a reason that this seed gave.
class SimCalls {
 public:
  SimCalls(SimMachine& machine, ExecutorAuditor& auditor, Random& random, ExecutorCanary canary,
           SimTrace& trace, MissRule misses);

  void Submit();
  void CancelOne();
  void EndSession();
  void Hint();
  void Guess();
  void EndAllSessions();
  // Calls that the executor has not looked for yet.
  [[nodiscard]] bool HasWaiting() { return source_.Ready(); }
  // When nothing is under way any more.
  void CheckAllAnswered();

 private:
  struct Call {
    SessionId session{};
    LayerIndex layer{};
    uint32_t rows = 0;
    uint32_t top_k = 0;
    std::vector<uint16_t> experts;  // distinct
    LayerCall asked;                // its picks
    std::vector<uint32_t> inputs;   // by row: which of the model's
    std::optional<TimePoint> deadline;
    std::shared_ptr<CallControl> control;
    bool may_be_cancelled = false;
    uint32_t answers = 0;
  };

  LayerCall Draw(std::vector<uint32_t>& rows);
  void DrawPicks(LayerCall& call);
  uint32_t DrawRows();
  std::vector<ExpertKey> DrawExperts(LayerIndex layer, uint32_t most);
  LayerIndex DrawLayer();
  void OnRefused(size_t call, const Error& why);
  void OnAnswer(size_t call, Result<LayerOutput> result);
  void Take(size_t call, const Result<LayerOutput>& result);
  void CheckOutput(size_t index, const LayerOutput& output);
  void CheckMasked(size_t index, const std::vector<MaskedPick>& masked);
  void Spoil(size_t index, LayerOutput& output);
  [[nodiscard]] bool IsExplained(const Call& call, const Error& error) const;

  SimMachine& machine_;
  ExecutorAuditor& auditor_;
  Random& random_;
  const ExecutorCanary canary_;
  SimTrace& trace_;
  const MissRule misses_;
  std::vector<Call> calls_;
  std::vector<SessionId> sessions_;
  uint64_t last_session_ = 0;
  LayerIndex favourite_{};  // many calls at once wait for one layer
  SimSource source_;
  // An answer that a canary keeps back to give it to another call.
  struct KeptAnswer {
    size_t call = 0;
    LayerOutput output;
  };
  std::optional<KeptAnswer> kept_;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_SIM_CALLS_H_
