// Plays the core with the CUDA device over an emulated card through many seeds, or shows that
// planted faults are noticed; seed_player.h has the options.

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "base/check.h"
#include "tests/sim/gpu_world.h"
#include "tests/sim/seed_player.h"

namespace moetier {
namespace {

// All seeds over a few models, one after another.
class GpuSeeds final : public SeededWorld {
 public:
  std::optional<std::string> Play(uint64_t seed, std::optional<size_t> canary,
                                  Detail detail) override {
    return canary ? PlayApart(seed, *canary) : PlayHere(seed, GpuCanary::kNone, detail);
  }
  [[nodiscard]] std::vector<std::string_view> CanaryNames() const override {
    std::vector<std::string_view> names;
    for (const NamedGpuCanary& each : kAllGpuCanaries) names.push_back(each.name);
    return names;
  }
  [[nodiscard]] uint64_t steps() const override { return steps_; }

 private:
  std::optional<std::string> PlayHere(uint64_t seed, GpuCanary canary, Detail detail) {
    SimTrace trace(detail == Detail::kSteps ? SimTrace::Mode::kPrint : SimTrace::Mode::kQuiet);
    GpuWorld world(*models_[seed % models_.size()], seed, canary, trace);
    std::optional<std::string> breach = world.Run();
    steps_ += world.steps();
    return breach;
  }

  // In a process of its own: memory that a canary has used too late may be nobody's by then, which
  // stops the process, and is as good a catch as other bits.
  std::optional<std::string> PlayApart(uint64_t seed, size_t canary) {
    std::fflush(stdout);  // or the child prints it too
    const pid_t child = fork();
    MOE_CHECK(child >= 0, "fork fails");
    if (child == 0) {
      const auto breach = PlayHere(seed, kAllGpuCanaries[canary].canary, Detail::kQuiet);
      if (breach) fmt::print("  {}\n", *breach);
      std::fflush(stdout);
      _exit(breach ? 1 : 0);
    }
    int status = 0;
    MOE_CHECK(waitpid(child, &status, 0) == child, "waitpid fails");
    if (WIFSIGNALED(status)) return fmt::format("the process ends by signal {}", WTERMSIG(status));
    if (WEXITSTATUS(status) == 0) return std::nullopt;
    return "as printed above";
  }

  const std::vector<std::unique_ptr<GpuModel>> models_ = MakeGpuModels();
  uint64_t steps_ = 0;
};

}  // namespace
}  // namespace moetier

int main(int argc, char** argv) {
  moetier::GpuSeeds seeds;
  return moetier::RunSimulator(argc, argv, "Simulator of the GPU tier", seeds);
}
