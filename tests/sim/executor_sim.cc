// Plays LayerExecutor, with all that it stands on, through many seeds, or shows that planted faults
// are noticed; seed_player.h has the options.

#include "tests/sim/executor_world.h"
#include "tests/sim/seed_player.h"

namespace moetier {
namespace {

// All seeds over one model.
class ExecutorSeeds final : public SeededWorld {
 public:
  std::optional<std::string> Play(uint64_t seed, std::optional<size_t> canary,
                                  Detail detail) override {
    SimTrace trace(detail == Detail::kSteps ? SimTrace::Mode::kPrint : SimTrace::Mode::kQuiet);
    ExecutorWorld world(model_, seed,
                        canary ? kAllExecutorCanaries[*canary] : ExecutorCanary::kNone, trace);
    std::optional<std::string> breach = world.Run();
    steps_ += world.steps();
    return breach;
  }
  [[nodiscard]] std::vector<std::string_view> CanaryNames() const override {
    std::vector<std::string_view> names;
    for (const ExecutorCanary canary : kAllExecutorCanaries) names.push_back(CanaryName(canary));
    return names;
  }
  [[nodiscard]] uint64_t steps() const override { return steps_; }

 private:
  SimModel model_;
  uint64_t steps_ = 0;
};

}  // namespace
}  // namespace moetier

int main(int argc, char** argv) {
  moetier::ExecutorSeeds seeds;
  return moetier::RunSimulator(argc, argv, "Simulator of the executor", seeds);
}
