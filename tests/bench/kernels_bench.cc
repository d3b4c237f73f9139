// Do the CPU kernels read experts as fast as memory delivers? Every figure is a ratio of segments
// that ran next to each other on different cold memory, by the thread's CPU time; the bits of every
// kernel are checked against the reference before its speed is printed.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/rows16.h"
#include "tests/bench/cold_memory.h"
#include "tests/unit/kernels/simd_matrix.h"

namespace moetier::bench {
namespace {

using namespace kernels;  // NOLINT: a program of its own

constexpr uint32_t kHidden = 2048;
constexpr uint32_t kFfn = 768;
constexpr uint32_t kTokenCounts[] = {1, 2, 4, 8};
constexpr KernelVariant kVariants[] = {{.prefetch = true}, {.prefetch = false}};
constexpr WeightType kTypes[] = {WeightType::kQ8_0, WeightType::kQ4_0, WeightType::kMXFP4,
                                 WeightType::kQ4_K, WeightType::kQ5_K, WeightType::kQ6_K,
                                 WeightType::kQ2_K, WeightType::kQ3_K, WeightType::kBF16,
                                 WeightType::kF16,  WeightType::kF32};

struct BenchOptions {
  uint32_t arena_mib = 256;
  uint32_t piece_mib = 8;
  uint32_t rounds = 60;
  std::string type;  // all if empty
  std::string set;   // all if empty
  bool json = false;
};

// One expert of one type, and activations for it.
class BenchExpert {
 public:
  explicit BenchExpert(WeightType type) {
    const ExpertShape shape{.hidden = kHidden, .ffn = kFfn, .gate = type, .up = type, .down = type};
    Result<RecordLayout> layout = MakeRecordLayout(shape, RecordForm::kRows16);
    MOE_CHECK(layout.has_value(), "layout of {}", Info(type).name);
    layout_ = *layout;
    const test::TestMatrix gate(type, kFfn, kHidden, test::Weights::kOrdinary, 1);
    const test::TestMatrix up(type, kFfn, kHidden, test::Weights::kOrdinary, 2);
    const test::TestMatrix down(type, kHidden, kFfn, test::Weights::kOrdinary, 3);
    record_.resize(layout_.bytes);
    PackRecord(layout_, {{gate.source(), up.source(), down.source(), {}, {}, {}}}, record_);
    FillTokens(hidden_, kHidden);
    FillTokens(inner_, kFfn);
  }

  [[nodiscard]] std::span<const std::byte> record() const { return record_; }

  // All dots of the expert in the order of expert_ffn, `tokens` rows at a time.
  void Run(MatVecFn kernel, const std::byte* record, uint32_t tokens, std::span<float> out) const {
    float* next = out.data();
    for (uint32_t group = 0; group < kFfn / kGroupRows; ++group) {
      RunGroup(kernel, PartRole::kGate, record, group, tokens, next);
      RunGroup(kernel, PartRole::kUp, record, group, tokens, next);
    }
    for (uint32_t group = 0; group < kHidden / kGroupRows; ++group) {
      RunGroup(kernel, PartRole::kDown, record, group, tokens, next);
    }
  }
  static size_t OutSize(uint32_t tokens) { return size_t{tokens} * (2 * kFfn + kHidden); }

 private:
  static void FillTokens(ActivationRows& rows, uint32_t columns) {
    rows.Resize(kMaxTokens, columns);
    std::mt19937 random(columns);
    std::normal_distribution<float> normal;
    std::vector<float> values(columns);
    for (uint32_t row = 0; row < kMaxTokens; ++row) {
      for (float& value : values) value = normal(random);
      rows.PutRow(row, values);
    }
  }

  void RunGroup(MatVecFn kernel, PartRole role, const std::byte* record, uint32_t group,
                uint32_t tokens, float*& next) const {
    const ActivationRows& rows = role == PartRole::kDown ? inner_ : hidden_;
    ActivationRow x[kMaxTokens];
    for (uint32_t t = 0; t < tokens; ++t) x[t] = rows.row(t);
    kernel({.part = &*layout_.part(role),
            .record = record,
            .tokens = std::span(x, tokens),
            .group_begin = group,
            .group_end = group + 1,
            .out = next,
            .out_stride = kGroupRows});
    next += kGroupRows * tokens;
  }

  RecordLayout layout_;
  std::vector<std::byte> record_;
  ActivationRows hidden_;
  ActivationRows inner_;
};

struct Figures {
  WeightType type;
  InstructionSet set;
  KernelVariant variant;
  double plain_gbps = 0;
  double prefetch_gbps = 0;
  double kernel_gbps = 0;
  double to_plain = 0;  // read time / kernel time
  double to_prefetch = 0;
  double tokens[4] = {1, 1, 1, 1};  // time of kTokenCounts[i] rows / time of one
};

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

MatVecFn KernelOf(InstructionSet set, WeightType type, KernelVariant variant) {
  return set == InstructionSet::kAvx512 ? Avx512Kernel(type, variant) : Avx2Kernel(type, variant);
}

class KernelBench {
 public:
  KernelBench(const BenchOptions& options, ColdMemory& memory, WeightType type)
      : options_(options), memory_(memory), type_(type), expert_(type) {
    memory_.Fill(expert_.record(), size_t{options.piece_mib} << 20);
    for (const uint32_t tokens : kTokenCounts) {
      expected_.emplace_back(BenchExpert::OutSize(tokens));
      expert_.Run(ScalarKernel(type), memory_.NextPiece().data(), tokens, expected_.back());
    }
  }

  Figures Measure(InstructionSet set) {
    CheckBits(set);
    Figures figures{type_, set, FastestVariant(set)};
    const MatVecFn kernel = KernelOf(set, type_, figures.variant);
    std::vector<double> plain, prefetch, one, to_plain, to_prefetch, ratios[4];
    for (uint32_t round = 0; round < options_.rounds; ++round) {
      const double plain_time = ReadTime(ReadLoop::kPlain);
      const double one_time = KernelTime(kernel, 0);
      const double prefetch_time = ReadTime(ReadLoop::kPrefetch);
      plain.push_back(plain_time);
      prefetch.push_back(prefetch_time);
      one.push_back(one_time);
      to_plain.push_back(plain_time / one_time);
      to_prefetch.push_back(prefetch_time / one_time);
      for (size_t i = 1; i < std::size(kTokenCounts); ++i) {
        ratios[i].push_back(KernelTime(kernel, i) / one_time);
      }
    }
    figures.plain_gbps = 1e-9 / Median(plain);
    figures.prefetch_gbps = 1e-9 / Median(prefetch);
    figures.kernel_gbps = 1e-9 / Median(one);
    figures.to_plain = Median(to_plain);
    figures.to_prefetch = Median(to_prefetch);
    for (size_t i = 1; i < std::size(kTokenCounts); ++i) figures.tokens[i] = Median(ratios[i]);
    return figures;
  }

 private:
  static bool SameBits(float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
           (std::isnan(a) && std::isnan(b));
  }

  void CheckBits(InstructionSet set) {
    for (const KernelVariant variant : kVariants) {
      for (size_t i = 0; i < std::size(kTokenCounts); ++i) {
        std::vector<float> out(expected_[i].size());
        expert_.Run(KernelOf(set, type_, variant), memory_.NextPiece().data(), kTokenCounts[i],
                    out);
        MOE_CHECK(std::equal(out.begin(), out.end(), expected_[i].begin(), SameBits),
                  "{} {} with {} tokens differs from the reference", InstructionSetName(set),
                  Info(type_).name, kTokenCounts[i]);
      }
    }
  }

  // Alternating, so that all see the same noise.
  KernelVariant FastestVariant(InstructionSet set) {
    std::vector<double> times[std::size(kVariants)];
    for (uint32_t round = 0; round < options_.rounds / 2 + 1; ++round) {
      for (size_t i = 0; i < std::size(kVariants); ++i) {
        times[i].push_back(KernelTime(KernelOf(set, type_, kVariants[i]), 0));
      }
    }
    size_t best = 0;
    for (size_t i = 1; i < std::size(kVariants); ++i) {
      if (Median(times[i]) < Median(times[best])) best = i;
    }
    return kVariants[best];
  }

  // Seconds a byte.
  double ReadTime(ReadLoop loop) {
    const std::span<const std::byte> piece = memory_.NextPiece();
    const double start = ThreadSeconds();
    kept_ = kept_ + ReadAll(loop, piece);
    return (ThreadSeconds() - start) / static_cast<double>(piece.size());
  }

  double KernelTime(MatVecFn kernel, size_t token_index) {
    const std::span<const std::byte> piece = memory_.NextPiece();
    const uint32_t tokens = kTokenCounts[token_index];
    out_.resize(BenchExpert::OutSize(tokens));
    const double start = ThreadSeconds();
    for (size_t at = 0; at < piece.size(); at += expert_.record().size()) {
      expert_.Run(kernel, piece.data() + at, tokens, out_);
    }
    return (ThreadSeconds() - start) / static_cast<double>(piece.size());
  }

  const BenchOptions& options_;
  ColdMemory& memory_;
  WeightType type_;
  BenchExpert expert_;
  std::vector<std::vector<float>> expected_;  // by token count
  std::vector<float> out_;
  volatile unsigned kept_ = 0;
};

void PrintHeader() {
  fmt::print("one thread, experts of {} x {} x 3, plain loop: {}\n", kHidden, kFfn, ReadLoopName());
  fmt::print("{:<7}{:<7}{:>10}{:>9}{:>8}{:>9}{:>9}{:>12}{:>7}{:>7}{:>7}\n", "type", "set",
             "prefetch", "kernel", "plain", "ahead", "/plain", "/ahead", "2 tok", "4 tok", "8 tok");
}

void Print(const Figures& f) {
  fmt::print("{:<7}{:<7}{:>10}{:>9.1f}{:>8.1f}{:>9.1f}{:>9.2f}{:>12.2f}{:>7.2f}{:>7.2f}{:>7.2f}\n",
             Info(f.type).name, InstructionSetName(f.set), f.variant.prefetch ? "4 KiB" : "none",
             f.kernel_gbps, f.plain_gbps, f.prefetch_gbps, f.to_plain, f.to_prefetch, f.tokens[1],
             f.tokens[2], f.tokens[3]);
  std::fflush(stdout);
}

nlohmann::json ToJson(const Figures& f) {
  return {{"type", Info(f.type).name},         {"instruction_set", InstructionSetName(f.set)},
          {"prefetch", f.variant.prefetch},    {"kernel_gbps", f.kernel_gbps},
          {"plain_loop_gbps", f.plain_gbps},   {"prefetch_loop_gbps", f.prefetch_gbps},
          {"ratio_to_plain_loop", f.to_plain}, {"ratio_to_prefetch_loop", f.to_prefetch},
          {"time_2_tokens", f.tokens[1]},      {"time_4_tokens", f.tokens[2]},
          {"time_8_tokens", f.tokens[3]}};
}

int Main(const BenchOptions& options) {
  Result<std::unique_ptr<ColdMemory>> memory = ColdMemory::Create(size_t{options.arena_mib} << 20);
  if (!memory) {
    fmt::print(stderr, "{}\n", memory.error().message);
    return 1;
  }
  nlohmann::json results = nlohmann::json::array();
  if (!options.json) PrintHeader();
  for (const WeightType type : kTypes) {
    if (!options.type.empty() && options.type != Info(type).name) continue;
    KernelBench bench(options, **memory, type);
    for (const InstructionSet set : {InstructionSet::kAvx512, InstructionSet::kAvx2}) {
      if (!options.set.empty() && options.set != InstructionSetName(set)) continue;
      if (!CpuSupports(set)) continue;
      const Figures figures = bench.Measure(set);
      if (options.json) {
        results.push_back(ToJson(figures));
      } else {
        Print(figures);
      }
    }
  }
  if (options.json) fmt::print("{}\n", results.dump(2));
  return 0;
}

}  // namespace
}  // namespace moetier::bench

int main(int argc, char** argv) {
  moetier::bench::BenchOptions options;
  CLI::App app("Speed of the CPU expert kernels against read loops over the same memory");
  app.add_option("--arena-mib", options.arena_mib, "cold memory")
      ->check(CLI::Range(64, 65536))
      ->capture_default_str();
  app.add_option("--piece-mib", options.piece_mib, "memory of one segment")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "segments of each kind")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--type", options.type, "only this type, as Q4_K");
  app.add_option("--set", options.set, "only avx512 or avx2");
  app.add_flag("--json", options.json, "results as JSON");
  CLI11_PARSE(app, argc, argv);
  return moetier::bench::Main(options);
}
