// Does the CPU lane read a layer's experts as fast as memory delivers? A decode's layer: top-k
// experts, one row, cold memory; against read loops of as many threads over the same bytes, by
// turns. The outputs are compared with one worker's and the scalar reference's before a speed is
// printed.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "daemon/scheduling/cpu_lane.h"
#include "kernels/rows16.h"
#include "tests/bench/cold_memory.h"
#include "tests/unit/kernels/simd_matrix.h"

namespace moetier::bench {
namespace {

using namespace kernels;  // NOLINT: a program of its own
using WallClock = std::chrono::steady_clock;

struct BenchOptions {
  uint32_t arena_mib = 512;
  uint32_t rounds = 100;
  uint32_t workers = 2;
  uint32_t experts = 8;
  uint32_t hidden = 2048;
  uint32_t ffn = 768;
  std::string type = "Q4_K";
};

WeightType TypeNamed(const std::string& name) {
  for (uint32_t number = 0; number < kWeightTypeNumbers; ++number) {
    const WeightTypeInfo* const info = FindWeightType(number);
    if (info != nullptr && info->has_rows16 && info->name == name) {
      return static_cast<WeightType>(number);
    }
  }
  MOE_CHECK(false, "no type {} with a rows16 form", name);
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The layer of a decode: `experts` experts over one row.
class Layer {
 public:
  Layer(const BenchOptions& options, WeightType type)
      : shape_{.hidden = options.hidden,
               .ffn = options.ffn,
               .gate = type,
               .up = type,
               .down = type},
        layout_(MakeRecordLayout(shape_, RecordForm::kRows16).value()),
        record_(layout_.bytes) {
    const test::TestMatrix gate(type, options.ffn, options.hidden, test::Weights::kOrdinary, 1);
    const test::TestMatrix up(type, options.ffn, options.hidden, test::Weights::kOrdinary, 2);
    const test::TestMatrix down(type, options.hidden, options.ffn, test::Weights::kOrdinary, 3);
    PackRecord(layout_, {{gate.source(), up.source(), down.source(), {}, {}, {}}}, record_);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> row(options.hidden);
    for (float& value : row) value = normal(random);
    token_.Resize(1, options.hidden);
    token_.PutRow(0, row);
    row_ = token_.row(0);
    out_.resize(size_t{options.experts} * options.hidden);
    for (uint32_t i = 0; i < options.experts; ++i) y_.push_back(&out_[i * size_t{options.hidden}]);
  }

  [[nodiscard]] std::span<const std::byte> record() const { return record_; }

  std::vector<float> Run(CpuLane& lane, std::span<const std::byte> piece) {
    std::vector<LaneTask> tasks;
    for (size_t i = 0; i < y_.size(); ++i) {
      tasks.push_back({.expert = {.shape = &shape_,
                                  .layout = &layout_,
                                  .record = piece.data() + i * record_.size()},
                       .tokens = std::span(&row_, 1),
                       .y = std::span(&y_[i], 1)});
    }
    const WallClock::time_point start = WallClock::now();
    lane.Run(tasks);
    seconds_ = std::chrono::duration<double>(WallClock::now() - start).count();
    return out_;
  }
  [[nodiscard]] double seconds() const { return seconds_; }  // of the last Run

 private:
  ExpertShape shape_;
  RecordLayout layout_;
  std::vector<std::byte> record_;
  ActivationRows token_;
  ActivationRow row_;
  std::vector<float> out_;
  std::vector<float*> y_;
  double seconds_ = 0;
};

// Wall time of `workers` threads that read a share of the piece each, from their common start.
double ReadSeconds(std::span<const std::byte> piece, uint32_t workers) {
  std::atomic<uint32_t> ready{0};
  std::atomic<bool> go{false};
  std::atomic<uint32_t> done{0};
  std::atomic<unsigned> kept{0};
  std::vector<std::jthread> threads;
  const size_t share = piece.size() / workers / 64 * 64;
  const auto read = [&](uint32_t worker) {
    ready.fetch_add(1);
    while (!go.load()) {
    }
    kept.fetch_add(ReadAll(ReadLoop::kPlain, piece.subspan(worker * share, share)));
    done.fetch_add(1);
  };
  for (uint32_t worker = 1; worker < workers; ++worker) threads.emplace_back(read, worker);
  while (ready.load() + 1 < workers) {
  }
  const WallClock::time_point start = WallClock::now();
  go.store(true);
  read(0);
  while (done.load() < workers) {
  }
  return std::chrono::duration<double>(WallClock::now() - start).count();
}

int Main(const BenchOptions& options) {
  const WeightType type = TypeNamed(options.type);
  Result<std::unique_ptr<ColdMemory>> memory = ColdMemory::Create(size_t{options.arena_mib} << 20);
  if (!memory) {
    fmt::print(stderr, "{}\n", memory.error().message);
    return 1;
  }
  Layer layer(options, type);
  const size_t bytes = layer.record().size() * options.experts;
  (*memory)->Fill(layer.record(), bytes);
  ExpertKernels scalar = *ExpertKernels::Create(InstructionSet::kScalar);
  ExpertKernels best = *ExpertKernels::Create(BestInstructionSet());
  const std::array types = {type};
  best.Tune(types, {.stop_requested = [] { return false; }});
  CpuLane reference({.workers = 1}, scalar);
  CpuLane lane({.workers = options.workers, .pin_workers = true}, best);
  const std::vector<float> expected = layer.Run(reference, (*memory)->NextPiece());

  std::vector<double> reads, runs, ratios;
  for (uint32_t round = 0; round < options.rounds; ++round) {
    const double read = ReadSeconds((*memory)->NextPiece(), options.workers);
    const std::vector<float> out = layer.Run(lane, (*memory)->NextPiece());
    MOE_CHECK(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)) == 0,
              "the lane's bits differ from the reference");
    reads.push_back(read);
    runs.push_back(layer.seconds());
    ratios.push_back(read / layer.seconds());
  }
  fmt::print(
      "{} x {} of {} x {} x 3, {} workers: {:.0f} us a layer, {:.1f} GB/s; read loops {:.1f} "
      "GB/s; ratio {:.2f}\n",
      options.experts, options.type, options.hidden, options.ffn, options.workers,
      1e6 * Median(runs), 1e-9 * static_cast<double>(bytes) / Median(runs),
      1e-9 * static_cast<double>(bytes) / Median(reads), Median(ratios));
  return 0;
}

}  // namespace
}  // namespace moetier::bench

int main(int argc, char** argv) {
  moetier::bench::BenchOptions options;
  CLI::App app("Speed of the CPU lane on a layer of a decode against read loops");
  app.add_option("--arena-mib", options.arena_mib, "cold memory")
      ->check(CLI::Range(64, 65536))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "layers")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--workers", options.workers, "threads")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--experts", options.experts, "of the layer")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--hidden", options.hidden, "hidden size, a multiple of 256")
      ->check(CLI::Range(256, 16384))
      ->capture_default_str();
  app.add_option("--ffn", options.ffn, "of an expert, a multiple of 256")
      ->check(CLI::Range(256, 16384))
      ->capture_default_str();
  app.add_option("--type", options.type, "weight type, as Q4_K")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return moetier::bench::Main(options);
}
