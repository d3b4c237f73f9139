// How long does a step of the residency ledger take? One decode stream over 48 layers of 128
// experts, 8 picks a layer: reserve, landings, release. Printed per policy and share of slots, in
// time of the processor, so that a busy machine does not spoil it.

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/support/random.h"
#include "tiers/residency_ledger.h"

namespace {

using namespace moetier;  // NOLINT: a program of one file

constexpr uint32_t kLayers = 48;
constexpr uint32_t kExperts = 128;
constexpr uint32_t kPicks = 8;
constexpr uint32_t kWarmTokens = 200;
constexpr uint32_t kTokens = 1000;

std::vector<ExpertKey> AllKeys() {
  std::vector<ExpertKey> keys;
  for (uint16_t layer = 0; layer < kLayers; ++layer) {
    for (uint16_t expert = 0; expert < kExperts; ++expert) {
      keys.push_back({ModelId{1}, LayerIndex{layer}, ExpertIndex{expert}});
    }
  }
  return keys;
}

// The picks of all tokens, drawn before the clock starts; the lesser of two draws, so that some
// experts are hot.
std::vector<ExpertKey> DrawPicks(Random& random) {
  std::vector<ExpertKey> picks;
  for (uint32_t wave = 0; wave < (kWarmTokens + kTokens) * kLayers; ++wave) {
    bool taken[kExperts] = {};
    for (uint32_t i = 0; i < kPicks;) {
      const uint32_t expert = std::min(random.Below(kExperts), random.Below(kExperts));
      if (taken[expert]) continue;
      taken[expert] = true;
      ++i;
      picks.push_back({ModelId{1}, LayerIndex{static_cast<uint16_t>(wave % kLayers)},
                       ExpertIndex{static_cast<uint16_t>(expert)}});
    }
  }
  return picks;
}

double ProcessorNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

void Measure(const char* policy, uint32_t slot_percent, const std::vector<ExpertKey>& picks) {
  const uint32_t slots = kLayers * kExperts * slot_percent / 100;
  const auto ledger =
      ResidencyLedger::Create({.slot_count = slots, .policy = policy, .keys = AllKeys()}).value();
  CommandList commands;
  uint64_t steps = 0;
  double begin = ProcessorNanoseconds();
  LedgerCounts before;
  for (uint32_t wave = 0; wave < (kWarmTokens + kTokens) * kLayers; ++wave) {
    if (wave == kWarmTokens * kLayers) {
      begin = ProcessorNanoseconds();
      before = ledger->counts();
      steps = 0;
    }
    commands.clear();
    ledger->Step(ReserveWave{.wave = WaveId{wave},
                             .keys = std::span(picks).subspan(size_t{wave} * kPicks, kPicks)},
                 commands);
    const size_t answers = commands.size();
    for (size_t i = 0; i < answers; ++i) {
      if (const auto* start = std::get_if<StartRead>(&commands[i])) {
        const Ticket ticket = start->ticket;
        ledger->Step(ReadLanded{.ticket = ticket}, commands);
        ++steps;
      }
    }
    ledger->Step(ReleaseWave{.wave = WaveId{wave}}, commands);
    steps += 2;
  }
  const double took = ProcessorNanoseconds() - begin;
  const LedgerCounts counts = ledger->counts();
  const auto hits = static_cast<double>(counts.hits - before.hits);
  const auto misses = static_cast<double>(counts.misses - before.misses);
  fmt::print(
      "{:12} {:3} % of experts in slots: hit rate {:.3f}, {:6.1f} ns a step, {:6.1f} a wave\n",
      policy, slot_percent, hits / (hits + misses), took / static_cast<double>(steps),
      took / (kTokens * kLayers));
}

}  // namespace

int main() {
  Random random(1);
  const std::vector<ExpertKey> picks = DrawPicks(random);
  for (const char* policy : {"lru", "clock", "lfu:32:500", "heat", "static"}) {
    for (const uint32_t slot_percent : {25u, 50u, 100u}) Measure(policy, slot_percent, picks);
  }
  return 0;
}
