// What a long prompt of one session costs the hit rate of another that decodes: the demo model's
// recorded routes, token by token, before, during and after a prefill of 8192 rows, over a
// synthetic model of the demo's shape; and the same tokens without it. Exit status 1 when it took
// more than two points. usage: bench_scan [RAM_PERCENT [POLICY]]

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <vector>

#include "base/check.h"
#include "tests/support/recorded_routes.h"
#include "tests/support/synthetic_machine.h"

namespace moetier {
namespace {

using testing::SyntheticMachine;

constexpr uint32_t kExperts = kDemoKeys / kDemoLayers;
constexpr uint32_t kTopK = 4;
constexpr testing::SyntheticModel::Options kDemoShape{
    .experts = kExperts, .hidden = 256, .ffn = 256, .equal_layers = kDemoLayers};
constexpr uint32_t kPrefillRows = 8192;
constexpr size_t kTokens = 256;  // of each phase
constexpr double kMostLost = 2;  // points of hit rate

// Hits of the decode stream in one phase.
struct Phase {
  uint64_t tokens = 0;
  uint64_t picks = 0;
  uint64_t hits = 0;

  [[nodiscard]] double rate() const {
    return 100.0 * static_cast<double>(hits) / static_cast<double>(picks);
  }
};

void DecodeToken(SyntheticMachine& machine, size_t token, Phase& phase) {
  const Route& route = DemoRoute();
  for (uint32_t layer = 0; layer < kDemoLayers; ++layer) {
    std::vector<uint16_t> experts;
    for (const uint32_t key : route[(token * kDemoLayers + layer) % route.size()]) {
      experts.push_back(static_cast<uint16_t>(key % kExperts));
    }
    const LayerOutput output = machine.Submit(machine.Call(layer, experts, token)).get();
    phase.hits += output.hits;
    phase.picks += kTopK;
  }
  ++phase.tokens;
}

int Run(uint32_t ram_percent, const std::string& policy) {
  SyntheticMachine machine(kDemoShape, ram_percent, policy);
  size_t token = 0;
  Phase warm;
  while (warm.tokens < kTokens) DecodeToken(machine, token++, warm);
  Phase before;
  while (before.tokens < kTokens) DecodeToken(machine, token++, before);

  std::atomic<bool> prefilling{true};
  auto prefill = std::async(std::launch::async, [&] {
    for (uint32_t layer = 0; layer < kDemoLayers; ++layer) {
      machine.Submit(machine.AnyCall(layer, kPrefillRows, kTopK, layer)).get();
    }
    prefilling = false;
  });
  Phase during;
  while (prefilling) DecodeToken(machine, token++, during);
  prefill.get();
  MOE_CHECK(during.tokens > 0, "the prefill ended before a token was decoded");
  Phase after;
  while (after.tokens < kTokens) DecodeToken(machine, token++, after);

  // The same tokens without a prefill: routes differ from one stretch of text to the next.
  SyntheticMachine alone(kDemoShape, ram_percent, policy);
  Phase alone_warm;
  size_t alone_token = 0;
  while (alone_token < 2 * kTokens) DecodeToken(alone, alone_token++, alone_warm);
  Phase alone_during;
  while (alone_during.tokens < during.tokens) DecodeToken(alone, alone_token++, alone_during);
  Phase alone_after;
  while (alone_after.tokens < after.tokens) DecodeToken(alone, alone_token++, alone_after);

  std::printf("RAM %u %%, %s, prefill of %u rows\n", ram_percent, policy.c_str(), kPrefillRows);
  std::printf("            tokens   hits     without the prefill\n");
  std::printf("before    %8lu  %5.1f %%\n", before.tokens, before.rate());
  std::printf("during    %8lu  %5.1f %%  %5.1f %%\n", during.tokens, during.rate(),
              alone_during.rate());
  std::printf("after     %8lu  %5.1f %%  %5.1f %%\n", after.tokens, after.rate(),
              alone_after.rate());
  const bool kept = during.rate() > alone_during.rate() - kMostLost &&
                    after.rate() > alone_after.rate() - kMostLost;
  if (!kept) std::printf("the prefill took more than %.0f points\n", kMostLost);
  return kept ? 0 : 1;
}

}  // namespace
}  // namespace moetier

int main(int argc, char** argv) {
  return moetier::Run(argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 25,
                      argc > 2 ? argv[2] : "lru");
}
