#ifndef MOETIER_TESTS_GPU_BENCH_LAYER_H_
#define MOETIER_TESTS_GPU_BENCH_LAYER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/cuda/expert_plan.h"
#include "kernels/layout.h"
#include "tests/unit/cuda/kernel_device.h"

namespace moetier::bench {

// Many copies of one random expert, back to back on the device, and what calls over them need: rows
// that pick the same experts, the next ones at each call. A call's memory was read a whole round
// ago. Threads: one. Lifetime: its memory is the device's, which outlives it.
class BenchLayer {
 public:
  struct Options {
    kernels::WeightType type;
    uint32_t hidden;
    uint32_t ffn;
    uint32_t rows;         // of a call
    uint32_t experts;      // that each of the rows picks
    size_t rotated_bytes;  // of experts, rounded up to whole calls
    kernels::cuda::KernelDevice::Memory memory;
  };
  static Result<std::unique_ptr<BenchLayer>> Create(kernels::cuda::KernelDevice& device,
                                                    const Options& options);

  // The bits of one call against kernels/reference; kDataLoss if they differ.
  Status CheckBits(uint32_t staged_blocks);

  // Launches of `calls` calls from hidden row to sum; of all calls of a round, which move
  // gate_up_bytes() and down_bytes(). The code of the first that is refused, else 0.
  int WholeCalls(uint32_t staged_blocks, uint32_t calls) const;
  int GateUpRound(uint32_t staged_blocks) const;
  int DownRound(uint32_t staged_blocks) const;
  int Round(uint32_t staged_blocks) const;  // gate and up of all calls, then down of all
  [[nodiscard]] uint32_t calls() const { return calls_; }
  [[nodiscard]] size_t gate_up_bytes() const { return calls_ * options_.experts * gate_up_bytes_; }
  [[nodiscard]] size_t down_bytes() const { return calls_ * options_.experts * down_bytes_; }
  [[nodiscard]] size_t record_bytes() const { return layout_.bytes; }
  [[nodiscard]] const std::byte* records() const { return records_; }
  [[nodiscard]] size_t all_bytes() const { return calls_ * options_.experts * layout_.bytes; }

 private:
  BenchLayer(kernels::cuda::KernelDevice& device, const Options& options)
      : device_(device), options_(options) {}
  [[nodiscard]] uint32_t picks() const { return options_.rows * options_.experts; }
  Status FillExperts();
  Status FillCall();
  [[nodiscard]] kernels::cuda::GateUpCall GateUp(uint32_t call, uint32_t staged_blocks) const;
  [[nodiscard]] kernels::cuda::DownCall Down(uint32_t call, uint32_t staged_blocks) const;

  kernels::cuda::KernelDevice& device_;
  Options options_;
  kernels::RecordLayout layout_;
  kernels::cuda::ExpertPlan plan_{};
  uint32_t calls_ = 0;
  size_t gate_up_bytes_ = 0;  // of one expert
  size_t down_bytes_ = 0;
  std::vector<float> expected_;  // [rows][hidden]: one expert's answers
  std::byte* records_ = nullptr;
  kernels::cuda::ExpertRun* runs_ = nullptr;  // [calls][experts]
  uint32_t* row_of_pick_ = nullptr;
  kernels::cuda::PrepareCall prepare_{};
  kernels::cuda::PreparedRows h_{};
  float* y_ = nullptr;
  kernels::cuda::CombineCall combine_{};
};

}  // namespace moetier::bench

#endif  // MOETIER_TESTS_GPU_BENCH_LAYER_H_
