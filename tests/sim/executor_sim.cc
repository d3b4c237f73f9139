// Plays LayerExecutor, with all that it stands on, through many seeds, or shows that planted faults
// are noticed.
//
//   executor_sim --seeds 100000        seeds 1 to 100000; --first S begins at S
//   executor_sim --seed=77             one seed, as a failure prints it, step by step
//   executor_sim --file seeds.txt      seeds that once found something, one a line
//   executor_sim --canaries 2000       each canary until it is caught, within 2000 seeds
//
// Exit code 0 when all is as it should be, 1 when not, 2 for bad arguments.

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "tests/sim/executor_world.h"

namespace {

using moetier::ExecutorCanary;
using moetier::ExecutorWorld;
using moetier::SimModel;
using moetier::SimTrace;

// What the signal handler prints when an invariant of the executor itself stops the process.
char abort_note[96];
size_t abort_note_size = 0;

void PrintSeedOnAbort(int /*signal*/) {
  const auto written = write(STDERR_FILENO, abort_note, abort_note_size);
  static_cast<void>(written);
  std::_Exit(1);
}

// Plays seeds over one model.
class Player {
 public:
  std::optional<std::string> Play(uint64_t seed, ExecutorCanary canary, SimTrace::Mode mode) {
    const auto note = fmt::format_to_n(abort_note, sizeof abort_note, "stopped at --seed={}{}\n",
                                       seed, canary == ExecutorCanary::kNone ? "" : " of a canary");
    abort_note_size = std::min(note.size, sizeof abort_note);
    SimTrace trace(mode);
    ExecutorWorld world(model_, seed, canary, trace);
    std::optional<std::string> breach = world.Run();
    steps_ += world.steps();
    return breach;
  }

  // A seed that fails is played again, to print its steps.
  bool PlayHonestly(uint64_t seed, SimTrace::Mode mode) {
    std::optional<std::string> breach = Play(seed, ExecutorCanary::kNone, mode);
    if (!breach) return true;
    if (mode == SimTrace::Mode::kQuiet) Play(seed, ExecutorCanary::kNone, SimTrace::Mode::kPrint);
    fmt::print(stderr, "--seed={}: {}\n", seed, *breach);
    return false;
  }

  bool PlaySeedsOf(const std::string& path) {
    std::ifstream file(path);
    if (!file) {
      fmt::print(stderr, "{}: cannot be read\n", path);
      return false;
    }
    bool good = true;
    std::string line;
    while (std::getline(file, line)) {
      if (line.empty() || line.front() == '#') continue;
      good = PlayHonestly(std::stoull(line), SimTrace::Mode::kQuiet) && good;
    }
    return good;
  }

  bool Catch(ExecutorCanary canary, uint64_t most) {
    for (uint64_t seed = 1; seed <= most; ++seed) {
      const std::optional<std::string> breach = Play(seed, canary, SimTrace::Mode::kQuiet);
      if (!breach) continue;
      fmt::print("{:28} caught after {:4} seeds: {}\n", CanaryName(canary), seed, *breach);
      return true;
    }
    fmt::print(stderr, "{:28} not caught within {} seeds\n", CanaryName(canary), most);
    return false;
  }

  [[nodiscard]] uint64_t steps() const { return steps_; }

 private:
  SimModel model_;
  uint64_t steps_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Simulator of the executor");
  uint64_t seeds = 0;
  uint64_t first = 1;
  uint64_t one_seed = 0;
  uint64_t canary_seeds = 0;
  std::string file;
  app.add_option("--seeds", seeds, "how many seeds to play");
  app.add_option("--first", first, "the first of them");
  CLI::Option* const one = app.add_option("--seed", one_seed, "play this one and print its steps");
  app.add_option("--file", file, "play the seeds of this file");
  app.add_option("--canaries", canary_seeds, "seeds within which each canary must be caught");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  std::signal(SIGABRT, PrintSeedOnAbort);

  Player player;
  bool good = true;
  const auto begin = std::chrono::steady_clock::now();
  if (!file.empty()) good = player.PlaySeedsOf(file) && good;
  if (one->count() > 0) good = player.PlayHonestly(one_seed, SimTrace::Mode::kPrint) && good;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    good = player.PlayHonestly(seed, SimTrace::Mode::kQuiet) && good;
  }
  if (canary_seeds > 0) {
    for (const ExecutorCanary canary : moetier::kAllExecutorCanaries) {
      good = player.Catch(canary, canary_seeds) && good;
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  fmt::print("{} steps in {:.1f} s: {}\n", player.steps(), took.count(), good ? "good" : "BAD");
  return good ? 0 : 1;
}
