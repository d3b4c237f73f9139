// Plays the core with the CUDA device over an emulated card through many seeds, or shows that
// planted faults are noticed; seed_player.h has the options.

#include "tests/sim/gpu_world.h"
#include "tests/sim/seed_player.h"

namespace moetier {
namespace {

// All seeds over a few models, one after another.
class GpuSeeds final : public SeededWorld {
 public:
  std::optional<std::string> Play(uint64_t seed, std::optional<size_t> canary,
                                  Detail detail) override {
    SimTrace trace(detail == Detail::kSteps ? SimTrace::Mode::kPrint : SimTrace::Mode::kQuiet);
    GpuWorld world(*models_[seed % models_.size()], seed,
                   canary ? kAllGpuCanaries[*canary].canary : GpuCanary::kNone, trace);
    std::optional<std::string> breach = world.Run();
    steps_ += world.steps();
    return breach;
  }
  [[nodiscard]] std::vector<std::string_view> CanaryNames() const override {
    std::vector<std::string_view> names;
    for (const NamedGpuCanary& each : kAllGpuCanaries) names.push_back(each.name);
    return names;
  }
  [[nodiscard]] uint64_t steps() const override { return steps_; }

 private:
  const std::vector<std::unique_ptr<GpuModel>> models_ = MakeGpuModels();
  uint64_t steps_ = 0;
};

}  // namespace
}  // namespace moetier

int main(int argc, char** argv) {
  moetier::GpuSeeds seeds;
  return moetier::RunSimulator(argc, argv, "Simulator of the GPU tier", seeds);
}
