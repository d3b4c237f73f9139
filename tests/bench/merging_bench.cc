// What merging the calls of several sessions saves: recorded decode steps of granite-3.0-1b-a400m
// (192 steps of three prompts) over a synthetic model of its shape that is wholly resident. W
// sessions that wait for the same layer run as one, in order of asking; then each expert is read
// once. Every output is compared with that of the step alone. usage: bench_merging [ROUNDS]

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/check.h"
#include "tests/support/recorded_routes.h"
#include "tests/support/synthetic_machine.h"

namespace moetier {
namespace {

using testing::SyntheticMachine;

constexpr uint32_t kExperts = kGraniteKeys / kGraniteLayers;

// By step and layer: the call, and the output that it has alone.
struct Step {
  std::vector<LayerCall> calls;
  std::vector<std::vector<float>> alone;
};

// The recorded steps as the study orders them: step by step, prose, code, math.
std::vector<Step> MakeSteps(SyntheticMachine& machine) {
  std::vector<const Route*> prompts;
  for (const char* name : {"english_prose", "code", "math"}) {
    prompts.push_back(&GraniteRoutes().at(name));
  }
  std::vector<Step> steps;
  for (size_t t = 0; t < prompts.front()->size() / kGraniteLayers; ++t) {
    for (const Route* route : prompts) {
      Step& step = steps.emplace_back();
      for (uint32_t layer = 0; layer < kGraniteLayers; ++layer) {
        std::vector<uint16_t> experts;
        for (const uint32_t key : (*route)[t * kGraniteLayers + layer]) {
          experts.push_back(static_cast<uint16_t>(key % kExperts));
        }
        step.calls.push_back(machine.Call(layer, experts, steps.size() * kGraniteLayers + layer));
        step.alone.push_back(machine.RunTogether({&step.calls.back()}).front());
      }
    }
  }
  return steps;
}

struct Figures {
  double experts_a_token = 0;
  double bytes_a_token = 0;
  double tokens_a_second = 0;
};

Figures RunMerged(SyntheticMachine& machine, const std::vector<Step>& steps, size_t width) {
  const LaneCounters before = machine.Counters();
  std::chrono::duration<double> took{0};
  for (size_t first = 0; first < steps.size(); first += width) {
    const size_t count = std::min(width, steps.size() - first);
    for (uint32_t layer = 0; layer < kGraniteLayers; ++layer) {
      std::vector<const LayerCall*> calls;
      for (size_t i = 0; i < count; ++i) calls.push_back(&steps[first + i].calls[layer]);
      const auto begin = std::chrono::steady_clock::now();
      const auto outputs = machine.RunTogether(calls);
      took += std::chrono::steady_clock::now() - begin;
      for (size_t i = 0; i < count; ++i) {
        MOE_CHECK(outputs[i] == steps[first + i].alone[layer],
                  "step {}, layer {}: merged with {} others it has other bits", first + i, layer,
                  count - 1);
      }
    }
  }
  const LaneCounters after = machine.Counters();
  const auto tokens = static_cast<double>(steps.size());
  return {.experts_a_token = static_cast<double>(after.experts - before.experts) / tokens,
          .bytes_a_token = static_cast<double>(after.bytes - before.bytes) / tokens,
          .tokens_a_second = tokens / took.count()};
}

int Run(int rounds) {
  SyntheticMachine machine(
      {.experts = kExperts, .hidden = 512, .ffn = 256, .equal_layers = kGraniteLayers}, 100, "lru");
  const std::vector<Step> steps = MakeSteps(machine);
  // Unions of FIFO batches as published with the trace, keys a token.
  struct Width {
    size_t width;
    double published;
  };
  constexpr Width kWidths[] = {{1, 192}, {2, 158.979167}, {4, 117.833333}, {8, 75.494792}};
  std::printf("%zu steps, %u layers, top-%u of %u experts; outputs compared\n", steps.size(),
              kGraniteLayers, kGraniteTopK, kExperts);
  std::printf("sessions   experts/token   published   MB/token   of one   tokens/s (best of %d)\n",
              rounds);
  double alone = 0;
  bool as_published = true;
  for (const Width& each : kWidths) {
    Figures best;
    for (int round = 0; round < rounds; ++round) {
      const Figures figures = RunMerged(machine, steps, each.width);
      if (figures.tokens_a_second > best.tokens_a_second) best = figures;
    }
    if (each.width == 1) alone = best.bytes_a_token;
    as_published = as_published && std::abs(best.experts_a_token - each.published) < 1e-6;
    std::printf("%8zu %15.6f %11.6f %10.2f %+7.1f %% %9.1f\n", each.width, best.experts_a_token,
                each.published, best.bytes_a_token / 1e6, 100 * (best.bytes_a_token / alone - 1),
                best.tokens_a_second);
  }
  if (!as_published) std::printf("the experts a token are not those that were published\n");
  return as_published ? 0 : 1;
}

}  // namespace
}  // namespace moetier

int main(int argc, char** argv) { return moetier::Run(argc > 1 ? std::atoi(argv[1]) : 3); }
