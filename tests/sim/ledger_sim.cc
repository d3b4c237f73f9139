// Plays ResidencyLedger through many seeds, or shows that broken ledgers are noticed.
//
//   ledger_sim --seeds 100000        seeds 1 to 100000
//   ledger_sim --seed=77             one seed, as a failure prints it
//   ledger_sim --file seeds.txt      seeds that once found something, one a line
//   ledger_sim --canaries 2000       each canary until it is caught, within 2000 seeds
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
#include <string>

#include "tests/sim/ledger_world.h"

namespace {

using moetier::Canary;
using moetier::LedgerWorld;

// What the signal handler prints when an invariant of the ledger itself stops the process.
char abort_note[96];
size_t abort_note_size = 0;

void PrintSeedOnAbort(int /*signal*/) {
  const auto written = write(STDERR_FILENO, abort_note, abort_note_size);
  static_cast<void>(written);
  std::_Exit(1);
}

uint64_t total_steps = 0;

std::optional<std::string> Play(uint64_t seed, Canary canary) {
  const auto note = fmt::format_to_n(abort_note, sizeof abort_note, "stopped at --seed={}{}\n",
                                     seed, canary == Canary::kNone ? "" : " of a canary");
  abort_note_size = std::min(note.size, sizeof abort_note);
  LedgerWorld world(seed, canary);
  std::optional<std::string> breach = world.Run();
  total_steps += world.steps();
  return breach;
}

bool PlayHonestly(uint64_t seed) {
  const std::optional<std::string> breach = Play(seed, Canary::kNone);
  if (breach) fmt::print(stderr, "--seed={}: {}\n", seed, *breach);
  return !breach;
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
    good = PlayHonestly(std::stoull(line)) && good;
  }
  return good;
}

bool Catch(Canary canary, uint64_t most) {
  for (uint64_t seed = 1; seed <= most; ++seed) {
    const std::optional<std::string> breach = Play(seed, canary);
    if (!breach) continue;
    fmt::print("{:28} caught after {:4} seeds: {}\n", CanaryName(canary), seed, *breach);
    return true;
  }
  fmt::print(stderr, "{:28} not caught within {} seeds\n", CanaryName(canary), most);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Simulator of the residency ledger");
  uint64_t seeds = 0;
  uint64_t first = 1;
  uint64_t one_seed = 0;
  uint64_t canary_seeds = 0;
  std::string file;
  app.add_option("--seeds", seeds, "how many seeds to play");
  app.add_option("--first", first, "the first of them");
  CLI::Option* const one = app.add_option("--seed", one_seed, "play this one");
  app.add_option("--file", file, "play the seeds of this file");
  app.add_option("--canaries", canary_seeds, "seeds within which each canary must be caught");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  std::signal(SIGABRT, PrintSeedOnAbort);

  bool good = true;
  const auto begin = std::chrono::steady_clock::now();
  if (!file.empty()) good = PlaySeedsOf(file) && good;
  if (one->count() > 0) good = PlayHonestly(one_seed) && good;
  for (uint64_t seed = first; seed < first + seeds; ++seed) good = PlayHonestly(seed) && good;
  if (canary_seeds > 0) {
    for (const Canary canary : moetier::kAllCanaries) good = Catch(canary, canary_seeds) && good;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  fmt::print("{} steps in {:.1f} s: {}\n", total_steps, took.count(), good ? "good" : "BAD");
  return good ? 0 : 1;
}
