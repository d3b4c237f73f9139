#ifndef MOETIER_DAEMON_SCHEDULING_EXPERT_CORE_H_
#define MOETIER_DAEMON_SCHEDULING_EXPERT_CORE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fallback.h"
#include "base/mutex.h"
#include "daemon/scheduling/cpu_lane.h"
#include "daemon/scheduling/daemon_core.h"
#include "daemon/scheduling/heat_keeper.h"
#include "daemon/scheduling/layer_executor.h"
#include "daemon/scheduling/model_loading.h"
#include "daemon/scheduling/session_residency.h"
#include "daemon/scheduling/timed_tasks.h"
#include "daemon/scheduling/turns.h"
#include "daemon/scheduling/worker_count.h"
#include "kernels/expert_ffn.h"
#include "tiers/arena.h"
#include "tiers/device/device.h"
#include "tiers/device/emulated_device.h"
#include "tiers/expert_loader.h"
#include "tiers/nvme/create_reader.h"

namespace moetier {

// Names the arithmetic of ARCHITECTURE.md; a change of any output bit changes it.
inline constexpr std::string_view kArithmeticId = "moetier-1/int8x32";
// Follows it where results may leave picks out.
inline constexpr std::string_view kMaskedSuffix = "+mask";

// The daemon without its transports: models, the tiers under them, the executor.
// Threads:  as DaemonCore says. Loads run one at a time on their callers' threads.
// Lifetime: the destructor drains, then gives everything back. Clock and logger outlive it.
class ExpertCore final : public DaemonCore {
 public:
  // Devices that there may be. Each of `open` tries for one; what it says when it cannot be had is
  // the fallback gpu:none or, by `want`, the error of Create, or no matter if the host has none.
  struct GpuOptions {
    enum class Want : uint8_t { kIfThere, kListed, kRequired };
    std::vector<std::function<Result<std::unique_ptr<Device>>(const Clock&)>> open;
    Want want = Want::kIfThere;
  };
  struct Options {
    std::optional<kernels::InstructionSet> instruction_set;  // none: the best of this host
    bool tune_kernels = true;
    // Asked every few ms while the kernels are tuned; true ends Create with kCancelled.
    std::function<bool()> stop_requested = [] { return false; };
    uint32_t cpu_workers = 0;  // 0: one for each CPU that this process may use
    bool pin_workers = true;
    ReaderOptions reader;
    std::vector<EmulatedDevice::Options> emulated;  // with any of them there is no GPU
    GpuOptions gpu;
    ArenaOptions arena;  // on_progress and what are set by each load
    LayerExecutor::Options executor;
    HeatKeeper::Options heat;
    ModelOptions load_defaults;  // policy, ram and check of models loaded by an operator
  };

  static Result<std::unique_ptr<ExpertCore>> Create(const Options& options, const Clock& clock,
                                                    spdlog::logger& log);
  ~ExpertCore() override;

  // A model of the configuration. Progress as in DaemonCore::LoadModel.
  Status Load(const ModelOptions& options, const ProgressListener& listener);
  // The same over an open store; the model has no directory.
  Status LoadOver(OpenedStore open, const ModelOptions& options, const ProgressListener& listener);
  // UnloadModel, but kFailedPrecondition while somebody holds the model (ModelInfo::hold).
  Status UnloadIfIdle(std::string_view name);
  // Experts whose reads failed may be tried again, in every model.
  void LiftQuarantines();
  // A model that is being preheated, by name, and how far it is.
  [[nodiscard]] std::optional<std::pair<std::string, ModelProgress>> PreheatUnderWay() const;

  Status Submit(LayerCall call, LayerDone done) override;
  [[nodiscard]] std::optional<ModelInfo> FindModel(std::string_view name) const override;
  [[nodiscard]] std::optional<ModelInfo> ModelById(ModelId id) const override;
  [[nodiscard]] std::vector<ModelInfo> ListModels() const override;
  [[nodiscard]] std::optional<ModelInfo> HoldModel(ModelId id) override;
  Status LoadModel(const LoadSpec& spec, const ProgressListener& listener) override;
  Status UnloadModel(std::string_view name) override;
  Status VerifyModel(std::string_view name, const ProgressListener& listener) override;
  Result<uint32_t> Pin(ModelId model, LayerIndex layer,
                       std::span<const ExpertIndex> experts) override;
  Result<uint32_t> Unpin(ModelId model, LayerIndex layer,
                         std::span<const ExpertIndex> experts) override;
  uint32_t Hint(SessionId session, const std::vector<ExpertKey>& experts) override;
  Result<ModelHeat> GetHeat(ModelId model) const override;
  Status SetHeat(ModelId model, const ModelHeat& heat) override;
  Status AwaitPreheat(ModelId model, const ProgressListener& listener) override;
  Result<Bytes> SetBudget(const ModelPool& of, Bytes bytes,
                          std::optional<std::chrono::seconds> hold) override;
  Result<BudgetLoan> LendBudget(const ModelPool& of, Bytes less,
                                std::chrono::seconds hold) override;
  ResidencyCalls& residency() override { return residency_; }
  [[nodiscard]] StatusSnapshot Snapshot() const override;
  void AddRouteTap(std::shared_ptr<RouteTap> tap) override;
  Status AddCallSource(CallSource& source) override;
  void RemoveCallSource(CallSource& source) override;
  void SessionEnded(SessionId session) override;
  Status Drain(TimePoint deadline) override;

 private:
  ExpertCore(const Options& options, const Clock& clock, spdlog::logger& log,
             kernels::ExpertKernels kernels, WorkerCount workers);
  // A model by its info without hold, and what those hold who were given it.
  struct Entry {
    ModelInfo info;
    std::weak_ptr<const void> hold;
  };
  // What a model's budget was before it was changed for a while, and the task that restores it.
  struct LentBudget {
    Bytes original;
    uint64_t loan = 0;  // a number a SetBudget: the timer of an earlier one may be late
    TimedTasks::TaskId task{};
  };
  using Build = std::function<Result<std::unique_ptr<LoadedModel>>(ModelId, const ArenaOptions&)>;

  Status LoadBuilt(const ModelOptions& options, const ProgressListener& listener,
                   const Build& build);
  // In RAM, and in the device where there is one; nobody else knows of it yet.
  Result<std::unique_ptr<LoadedModel>> MakeModel(const ModelOptions& options, ModelId id,
                                                 const ProgressListener& listener,
                                                 const Build& build);
  Status ClaimName(const std::string& name, ModelId& id) EXCLUDES(models_mu_);
  Entry* FindReady(std::string_view name) REQUIRES(models_mu_);
  Status FinishUnload(ModelId id) EXCLUDES(models_mu_);
  std::vector<ModelHeat> CollectHeat();
  std::set<uint64_t> KeptHeat() EXCLUDES(models_mu_);
  void Preheat(ModelId id);

  // A budget, and the memory behind it: that stays until the end of the turn.
  struct Budgeted {
    Bytes budget;
    SlotMemory* memory = nullptr;
    const Arena* ram = nullptr;  // the same in RAM; null in VRAM
  };

  // Budgets: by their turn.
  Result<Bytes> SetBudgetNow(const ModelPool& of, Bytes bytes,
                             std::optional<std::chrono::seconds> hold);
  void RestoreBudget(const ModelPool& of, uint64_t loan);
  Result<Budgeted> FindBudget(const ModelPool& of);
  Result<Bytes> Resize(const ModelPool& of, Bytes bytes);
  Result<ArenaPlan> PlanSlots(const ModelInfo& model, const Budgeted& budgeted, Bytes bytes) const;
  Result<std::vector<SlotRun>> TakeMissing(const ModelPool& of, const ArenaPlan& plan,
                                           const Budgeted& budgeted);
  Status CheckHost(Bytes wanted, const Arena& ram) const;
  Status GiveBackRetired(const ModelPool& of, const std::vector<uint32_t>& slots,
                         SlotMemory& memory);

  Status OpenDevice(const Clock& clock);
  Result<std::vector<std::unique_ptr<Device>>> OpenGpus(const Clock& clock);

  const Options options_;
  kernels::ExpertKernels kernels_;
  const WorkerCount workers_;
  CpuLane lane_;
  std::unique_ptr<Device> device_;        // null: there is none; models have arenas in it
  std::vector<Fallback> no_gpu_;          // for each that was wanted, why
  mutable LayerExecutor executor_;        // asked for its state by Snapshot
  ExpertLoader loader_;                   // lands into the executor
  std::unique_ptr<RecordReader> reader_;  // reads for the loader; ends before it

  SessionResidency residency_;
  TimedTasks tasks_;
  HeatKeeper heat_;
  const HeatLookup kept_heat_;
  spdlog::logger& log_;
  Turns budget_turns_;                    // before a load turn
  std::map<ModelPool, LentBudget> lent_;  // by turns
  uint64_t last_loan_ = 0;                // by turns
  Turns load_turns_;  // two loads at once would both find the memory that one may take
  mutable Mutex models_mu_;
  std::map<ModelId, Entry> models_ GUARDED_BY(models_mu_);
  std::set<uint64_t> operators_ GUARDED_BY(models_mu_);  // fingerprints of what was loaded by name
  uint32_t next_model_ GUARDED_BY(models_mu_) = 1;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_EXPERT_CORE_H_
