#include "kernels/cpu/tune.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/bytes.h"
#include "kernels/rows16.h"

namespace moetier::kernels {
namespace {

constexpr uint32_t kColumns = 2048;
constexpr uint32_t kCallGroups = 2;  // the unit that the executor's workers claim
// Larger than the last-level cache of a home machine, so that each pass finds its bytes cold.
constexpr size_t kArenaBytes = (64_MiB).count();
// 0x3C3C is about 1 as f16 and 0.01 as bf16: no type meets NaN or a subnormal in it.
constexpr std::byte kFill{0x3C};
constexpr auto kWarmUp = std::chrono::milliseconds(1);
constexpr auto kMeasure = std::chrono::milliseconds(10);

// Walks a matrix that fills the arena, two groups a call, over and over.
class Walk {
 public:
  Walk(MatVecFn kernel, WeightType type, const std::byte* record, const ActivationRow& token)
      : kernel_(kernel), token_(token), record_(record) {
    part_.type = type;
    part_.layout = PartLayout::kRows16;
    part_.columns = kColumns;
    part_.stride = GroupBytes(type, kColumns);
    groups_ = static_cast<uint32_t>(kArenaBytes / part_.stride) / kCallGroups * kCallGroups;
    part_.rows = groups_ * kGroupRows;
  }

  double BytesPerSecondFor(std::chrono::nanoseconds span) {
    const auto start = std::chrono::steady_clock::now();
    uint64_t bytes = 0;
    std::chrono::nanoseconds elapsed{};
    do {
      Step();
      bytes += kCallGroups * part_.stride;
      elapsed = std::chrono::steady_clock::now() - start;
    } while (elapsed < span);
    return static_cast<double>(bytes) / std::chrono::duration<double>(elapsed).count();
  }

 private:
  void Step() {
    kernel_({.part = &part_,
             .record = record_,
             .tokens = std::span(&token_, 1),
             .group_begin = next_,
             .group_end = next_ + kCallGroups,
             .out = out_.data(),
             .out_stride = out_.size()});
    next_ = (next_ + kCallGroups) % groups_;
  }

  MatVecFn kernel_;
  ActivationRow token_;
  const std::byte* record_;
  RecordPart part_;
  uint32_t groups_;
  uint32_t next_ = 0;
  std::array<float, kCallGroups * kGroupRows> out_;
};

}  // namespace

KernelTuner::KernelTuner() : arena_(kArenaBytes + kLineBytes, kFill) {
  std::array<float, kColumns> values;
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3.0f;
  token_.Resize(1, kColumns);
  token_.PutRow(0, values);
}

double KernelTuner::BytesPerSecond(MatVecFn kernel, WeightType type) const {
  const auto base = AlignUp(reinterpret_cast<uintptr_t>(arena_.data()), kLineBytes);
  Walk walk(kernel, type, reinterpret_cast<const std::byte*>(base), token_.row(0));
  walk.BytesPerSecondFor(kWarmUp);
  return walk.BytesPerSecondFor(kMeasure);
}

}  // namespace moetier::kernels
