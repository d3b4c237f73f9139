#ifndef MOETIER_TESTS_SIM_SIM_MACHINE_H_
#define MOETIER_TESTS_SIM_SIM_MACHINE_H_

#include <spdlog/logger.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "daemon/scheduling/layer_executor.h"
#include "daemon/scheduling/model_loading.h"
#include "tests/sim/executor_canaries.h"
#include "tests/sim/sim_device.h"
#include "tests/sim/sim_drive.h"
#include "tests/sim/sim_model.h"
#include "tests/sim/stepped_executor.h"
#include "tests/support/random.h"
#include "tiers/expert_loader.h"

namespace moetier {

// A clock that goes on a little at each look, and more when told to.
class SimClock final : public Clock {
 public:
  explicit SimClock(std::chrono::nanoseconds tick) : tick_(tick) {}
  [[nodiscard]] TimePoint Now() const override { return now_ += tick_; }
  void Pass(std::chrono::nanoseconds time) { now_ += time; }
  [[nodiscard]] TimePoint at() const { return now_; }

 private:
  const std::chrono::nanoseconds tick_;
  mutable TimePoint now_{std::chrono::hours(1)};
};

// How a seed's machine is set up: all of it drawn.
struct SimSetup {
  static SimSetup Draw(Random& random, const SimModel& model, ExecutorCanary canary);

  LayerExecutor::Options executor;
  std::chrono::nanoseconds tick{0};
  std::vector<uint32_t> slots;  // in RAM, by size class
  SimModel::Landing landing = SimModel::Landing::kDirect;
  ModelOptions model;
  MissRule misses = MissRule::kStall;
  std::optional<DeviceDescription> device;
  SimDrive::Faults drive_faults;
  SimDevice::Faults device_faults;
};

// The executor with all that it stands on, for one seed. What it loads and how it ends passes
// through here, so that a failure can be explained.
// Threads: one.
class SimMachine final : private LoadListener {
 public:
  SimMachine(SimModel& model, const SimSetup& setup, Random& random, ExecutorCanary canary,
             SimTrace& trace);
  ~SimMachine() override;

  // Every fault has ended; what was lost stays so.
  void EndFaults();
  // One turn. False when nothing is left to do until something comes.
  bool Turn() { return stepped.Turn(); }
  // Ends a read, copy or run; false when there is none.
  bool Advance(Random& random);

  // The model, which the executor has; none when it has been handed back.
  [[nodiscard]] LoadedModel* model();
  // What a load ended with though nothing was spoilt, if any did.
  [[nodiscard]] const std::optional<std::string>& breach() const { return breach_; }
  [[nodiscard]] SimDrive& drive() { return drive_; }
  // Whether the executor has been told that the device is lost.
  [[nodiscard]] bool IsLossKnown();
  [[nodiscard]] SimDevice* device() { return device_ ? &*device_ : nullptr; }

  SimModel& sim_model;
  SimClock clock;
  // The executor stops, or the model is being removed: what is asked may be refused, and end, for
  // that.
  bool stopping = false;

 private:
  void OnLoad(LoadDone done) override;
  std::unique_ptr<LoadedModel> Load(const SimSetup& setup);

  const ExecutorCanary canary_;
  Random& random_;
  spdlog::logger log_{"sim"};  // no sinks
  std::optional<SimDevice> device_;

 public:
  LayerExecutor executor;
  SteppedExecutor stepped;

 private:
  ExpertLoader loader_;
  SimDrive drive_;
  std::optional<std::string> breach_;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_SIM_MACHINE_H_
