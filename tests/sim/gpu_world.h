#ifndef MOETIER_TESTS_SIM_GPU_WORLD_H_
#define MOETIER_TESTS_SIM_GPU_WORLD_H_

#include <spdlog/logger.h>

#include <array>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "daemon/scheduling/expert_core.h"
#include "tests/sim/gpu_models.h"
#include "tests/sim/sim_gpu.h"
#include "tests/sim/sim_trace.h"
#include "tests/support/random.h"

namespace moetier {

// The real core with the CUDA device over an emulated card, or over two. A seed draws them, a fault
// of one, the order of streams and threads, the model, and all that sessions and operator do, on
// this one thread; the executor's and the device's threads run beside it, and their turns are the
// host's choice. So a seed that fails may need to be played a few times. Every call that is not
// cancelled must be answered with the reference's bits, whatever the card does; at the end nothing
// may be left on the card, in its budget or in the ledgers.
class GpuWorld {
 public:
  GpuWorld(GpuModel& model, uint64_t seed, GpuCanary canary, SimTrace& trace);

  // Plays the seed to its end; what was wrong first, if anything.
  std::optional<std::string> Run();

  [[nodiscard]] uint64_t steps() const { return steps_; }

 private:
  struct Asked {
    LayerCall call;
    std::vector<uint32_t> rows;  // which of the model's
    bool may_be_cancelled = false;
    std::future<Result<LayerOutput>> answer;
  };
  // What the executor's thread notes for this one. Shared: an answer may come after a breach.
  struct Noted {
    Mutex mu;
    std::vector<std::pair<SessionId, LeaseId>> leases GUARDED_BY(mu);
  };

  void DrawCards();
  void AddCard(ExpertCore::Options& options, size_t number, Bytes budget);
  [[nodiscard]] ModelOptions DrawModel();
  Status Start();
  void OpenSessions();
  void PlayOneEvent();
  void Submit();
  void Submit(LayerCall call, std::vector<uint32_t> rows);
  void TakeAnswers(size_t keep);
  void Check(const Asked& asked, const Result<LayerOutput>& answer);
  void CancelOne();
  [[nodiscard]] bool KnowsLoss() const;
  void ChangeBudget();
  void PinOrUnpin();
  void Hint();
  void Lease();
  void Transfer();
  void ReleaseSome();
  void Reload();
  void ComeToRest();
  void AwaitQuiet();
  void CheckEachExpert();
  void CheckNothingTaken();
  void Report(std::string breach) {
    if (!breach_) breach_ = std::move(breach);
  }
  std::vector<ExpertKey> DrawKeys(uint32_t most);
  [[nodiscard]] ModelId id() const;

  GpuModel& model_;
  Random random_;
  SimTrace& trace_;
  SteadyClock clock_;
  spdlog::logger log_{"sim"};  // no sinks
  std::array<SimCard, 2> cards_;
  size_t card_count_ = 1;
  std::unique_ptr<ExpertCore> core_;
  ModelOptions options_;
  std::vector<Asked> asked_;
  std::set<ExpertKey> pinned_;
  const std::shared_ptr<Noted> noted_ = std::make_shared<Noted>();
  std::optional<std::string> breach_;
  uint64_t steps_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_GPU_WORLD_H_
