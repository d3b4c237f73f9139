// What the llama.cpp plug-in itself costs a layer: finding the layer in the graph, attaching,
// handing the rows over. The daemon is a double that answers at once, with an output that is
// checked. usage: bench_plugin [ROUNDS]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/support/plugin_engine.h"

namespace moetier::ggml {
namespace {

using std::chrono::steady_clock;

// Prints the median and returns whether every output was right.
bool MeasureLayer(const char* what, const testing::ExpertGraphSpec& spec, int rounds) {
  PluginEngine engine(AbiLayout::kV2, spec);
  engine.LoadMapped();
  std::vector<double> us;
  for (int i = 0; i < rounds; ++i) {
    PluginEngine::daemon().calls.clear();
    std::fill_n(static_cast<float*>(engine.graph().output->data), spec.hidden * spec.rows, 0.0F);
    const auto begin = steady_clock::now();
    const int32_t status = engine.Compute();
    const std::chrono::duration<double, std::micro> took = steady_clock::now() - begin;
    if (status != kSuccess || !engine.OutputIsRight()) {
      std::fprintf(stderr, "bench_plugin: a wrong output, so no time is printed\n");
      return false;
    }
    us.push_back(took.count());
  }
  std::ranges::sort(us);
  // The double's own arithmetic, which is not the plug-in's, measured alone.
  const moetier_layer_call call = PluginEngine::daemon().calls.front();
  const auto begin = steady_clock::now();
  for (int i = 0; i < rounds; ++i) PluginEngine::daemon().compute(call);
  const std::chrono::duration<double, std::micro> double_us = steady_clock::now() - begin;
  const double own = double_us.count() / rounds;
  std::printf("%-40s p50 %6.2f us  p99 %6.2f us  (of it the double: %.2f us)\n", what,
              us[us.size() / 2], us[us.size() * 99 / 100], own);
  return true;
}

}  // namespace
}  // namespace moetier::ggml

int main(int argc, char** argv) {
  using moetier::ggml::MeasureLayer;
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 20000;
  const moetier::testing::ExpertGraphSpec decode = {
      .hidden = 2048, .ffn = 32, .experts = 128, .picks = 8, .rows = 1};
  moetier::testing::ExpertGraphSpec prompt = decode;
  prompt.rows = 64;
  const bool good = MeasureLayer("1 row, hidden 2048, 8 of 128 experts", decode, rounds) &&
                    MeasureLayer("64 rows", prompt, rounds / 10 + 1);
  return good ? 0 : 1;
}
