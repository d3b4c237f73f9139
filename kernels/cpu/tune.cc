#include "kernels/cpu/tune.h"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "kernels/rows16.h"

namespace moetier::kernels {
namespace {

constexpr uint32_t kColumns = 2048;
constexpr uint32_t kCallGroups = 1;  // as expert_ffn calls it
// Larger than the last-level cache of a home machine, so that each pass finds its bytes cold.
constexpr size_t kArenaBytes = (64_MiB).count();
constexpr size_t kHugePage = (2_MiB).count();
constexpr size_t kTurnBytes = (32_MiB).count();  // about 2 ms
constexpr size_t kTurns = 5;
// 0x3C3C is about 1 as f16 and 0.01 as bf16: no type meets NaN or a subnormal in it.
constexpr int kFill = 0x3C;

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Walks a matrix that fills the arena, a group a call, over and over.
class Walk {
 public:
  Walk(WeightType type, const std::byte* record, const ActivationRow& token)
      : token_(token), record_(record) {
    part_.type = type;
    part_.layout = PartLayout::kRows16;
    part_.columns = kColumns;
    part_.stride = GroupBytes(type, kColumns);
    groups_ = static_cast<uint32_t>(kArenaBytes / part_.stride) / kCallGroups * kCallGroups;
    part_.rows = groups_ * kGroupRows;
  }

  // Bytes a second of one turn.
  double Turn(MatVecFn kernel) {
    const double start = ThreadSeconds();
    size_t bytes = 0;
    for (; bytes < kTurnBytes; bytes += kCallGroups * part_.stride) Step(kernel);
    return static_cast<double>(bytes) / std::max(ThreadSeconds() - start, 1e-9);
  }

 private:
  void Step(MatVecFn kernel) {
    kernel({.part = &part_,
            .record = record_,
            .tokens = std::span(&token_, 1),
            .group_begin = next_,
            .group_end = next_ + kCallGroups,
            .out = out_.data(),
            .out_stride = out_.size()});
    next_ = (next_ + kCallGroups) % groups_;
  }

  ActivationRow token_;
  const std::byte* record_;
  RecordPart part_;
  uint32_t groups_;
  uint32_t next_ = 0;
  std::array<float, kCallGroups * kGroupRows> out_;
};

double Median(std::vector<double> rates) {
  const auto middle = rates.begin() + static_cast<ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return *middle;
}

// Of the first `turns` of each kernel.
TuneOutcome Medians(const std::vector<std::vector<double>>& rates, size_t turns) {
  TuneOutcome outcome;
  if (turns == 0) return outcome;
  for (const std::vector<double>& kernel : rates) {
    outcome.rates.push_back(
        Median({kernel.begin(), kernel.begin() + static_cast<ptrdiff_t>(turns)}));
  }
  return outcome;
}

}  // namespace

KernelTuner::KernelTuner()
    : arena_(static_cast<std::byte*>(std::aligned_alloc(kHugePage, kArenaBytes))) {
  MOE_CHECK(arena_ != nullptr, "no memory for the {} bytes that kernels are measured on",
            kArenaBytes);
  // Records lie on huge pages where the host gives them; advice, so a refusal changes figures only.
  madvise(arena_.get(), kArenaBytes, MADV_HUGEPAGE);
  std::memset(arena_.get(), kFill, kArenaBytes);
  std::array<float, kColumns> values;
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3.0f;
  token_.Resize(1, kColumns);
  token_.PutRow(0, values);
}

TuneOutcome KernelTuner::BytesPerSecond(std::span<const MatVecFn> kernels, WeightType type,
                                        const TuneLimits& limits) const {
  using WallClock = std::chrono::steady_clock;
  const WallClock::time_point end = WallClock::now() + limits.budget;
  Walk walk(type, arena_.get(), token_.row(0));
  std::vector<std::vector<double>> rounds(kernels.size());  // by kernel
  for (size_t turn = 0; turn < kTurns; ++turn) {
    for (size_t i = 0; i < kernels.size(); ++i) {
      if (limits.stop_requested()) return {.rates = {}, .stopped = true};
      if (WallClock::now() >= end) return Medians(rounds, rounds.back().size());
      rounds[i].push_back(walk.Turn(kernels[i]));
    }
  }
  return Medians(rounds, rounds.back().size());
}

}  // namespace moetier::kernels
