#include "tests/sim/seed_player.h"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace moetier {
namespace {

using Detail = SeededWorld::Detail;

// What the signal handler prints when an invariant of what is simulated stops the process.
char abort_note[96];
size_t abort_note_size = 0;

void PrintSeedOnAbort(int /*signal*/) {
  const auto written = write(STDERR_FILENO, abort_note, abort_note_size);
  static_cast<void>(written);
  std::_Exit(1);
}

class SeedPlayer {
 public:
  explicit SeedPlayer(SeededWorld& world) : world_(world) {}

  // A seed that fails is played again, to print its steps.
  bool PlayHonestly(uint64_t seed, Detail detail) {
    const std::optional<std::string> breach = Play(seed, std::nullopt, detail);
    if (!breach) return true;
    if (detail == Detail::kQuiet) Play(seed, std::nullopt, Detail::kSteps);
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
      good = PlayHonestly(std::stoull(line), Detail::kQuiet) && good;
    }
    return good;
  }

  bool CatchAll(uint64_t most) {
    bool good = true;
    const std::vector<std::string_view> names = world_.CanaryNames();
    for (size_t i = 0; i < names.size(); ++i) good = Catch(i, names[i], most) && good;
    return good;
  }

 private:
  std::optional<std::string> Play(uint64_t seed, std::optional<size_t> canary, Detail detail) {
    const auto note = fmt::format_to_n(abort_note, sizeof abort_note, "stopped at --seed={}{}\n",
                                       seed, canary ? " of a canary" : "");
    abort_note_size = std::min(note.size, sizeof abort_note);
    return world_.Play(seed, canary, detail);
  }

  bool Catch(size_t canary, std::string_view name, uint64_t most) {
    for (uint64_t seed = 1; seed <= most; ++seed) {
      const std::optional<std::string> breach = Play(seed, canary, Detail::kQuiet);
      if (!breach) continue;
      fmt::print("{:28} caught after {:4} seeds: {}\n", name, seed, *breach);
      return true;
    }
    fmt::print(stderr, "{:28} not caught within {} seeds\n", name, most);
    return false;
  }

  SeededWorld& world_;
};

}  // namespace

int RunSimulator(int argc, char** argv, const std::string& about, SeededWorld& world) {
  CLI::App app(about);
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

  SeedPlayer player(world);
  bool good = true;
  const auto begin = std::chrono::steady_clock::now();
  if (!file.empty()) good = player.PlaySeedsOf(file) && good;
  if (one->count() > 0) good = player.PlayHonestly(one_seed, Detail::kSteps) && good;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    good = player.PlayHonestly(seed, Detail::kQuiet) && good;
  }
  if (canary_seeds > 0) good = player.CatchAll(canary_seeds) && good;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  fmt::print("{} steps in {:.1f} s: {}\n", world.steps(), took.count(), good ? "good" : "BAD");
  return good ? 0 : 1;
}

}  // namespace moetier
