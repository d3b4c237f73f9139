#ifndef MOETIER_TIERS_DEVICE_GPU_LANE_H_
#define MOETIER_TIERS_DEVICE_GPU_LANE_H_

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "kernels/cuda/expert_kernels.h"
#include "kernels/cuda/gpu.h"
#include "tiers/device/device.h"
#include "tiers/device/gpu_block.h"

namespace moetier {

// One queue of runs on a GPU: a stream, and the memory that hidden rows and results pass through.
// A run's rows go to the GPU once, however many experts pick them, and each pick's own result comes
// back: the sum over picks is the host's, in the request's order.
// Memory:   for kPicksAtOnce picks of the largest experts admitted, on both sides.
// Threads:  Compute is one thread's; Admit any, and waits for a run under way.
// Lifetime: the GPU outlives it.
class GpuLane {
 public:
  // Larger runs are computed in pieces of so many picks. 16 MB of the GPU's memory at a hidden size
  // of 4096; 8 experts for a piece of 32 rows.
  static constexpr uint32_t kPicksAtOnce = 256;

  // For runs whose records lie in `place`: it decides how the kernels read them.
  static Result<std::unique_ptr<GpuLane>> Create(kernels::cuda::Gpu& gpu, RecordPlace place);

  // As Device::Admit. Launches each kernel that runs may need once, over no picks: the driver loads
  // a kernel at its first launch, which takes milliseconds and memory. What is lacking then is
  // refused here, where it does not lose the device yet.
  Status Admit(const kernels::ExpertShape& shape, const kernels::RecordLayout& layout)
      EXCLUDES(mu_);
  // As DeviceWork::Compute; the shape was admitted.
  Status Compute(const std::vector<DeviceTask>& tasks) EXCLUDES(mu_);

 private:
  // The arrays of a piece. `in` lies in host and GPU alike and is copied whole.
  struct Input {
    kernels::cuda::ExpertRun* runs = nullptr;  // [kPicksAtOnce]
    uint32_t* row_of_pick = nullptr;           // [kPicksAtOnce]
    float* values = nullptr;                   // [rows][hidden]
  };
  // A part of a task: the picks of one expert.
  struct Part {
    const DeviceTask* task = nullptr;
    uint32_t first = 0;  // of the task's tokens
    uint32_t count = 0;
  };

  // What a piece reads and writes on the GPU.
  struct PieceMemory {
    Input in;
    kernels::cuda::PreparedRows x{};
    kernels::cuda::PreparedRows h{};
    float* y = nullptr;  // [kPicksAtOnce][hidden]
  };

  GpuLane(kernels::cuda::Gpu& gpu, RecordPlace place);

  static Input PlanInput(BlockPlan& plan, uint32_t hidden);
  static PieceMemory PlanPiece(BlockPlan& plan, uint32_t hidden, uint32_t ffn);
  Status Grow(uint32_t hidden, uint32_t ffn) REQUIRES(mu_);
  Status TryKernels(const kernels::cuda::ExpertPlan& expert) REQUIRES(mu_);
  Status ComputePiece(const kernels::cuda::ExpertPlan& expert, std::span<const Part> parts)
      REQUIRES(mu_);
  Status TryPiece(const kernels::cuda::ExpertPlan& expert, std::span<const Part> parts)
      REQUIRES(mu_);
  // Gate, up and down of the runs in `memory`.
  Status LaunchRuns(const kernels::cuda::ExpertPlan& expert, const PieceMemory& memory,
                    uint32_t run_count, uint32_t picks_max);
  Result<size_t> FillInput(std::span<const Part> parts, uint32_t hidden) REQUIRES(mu_);
  [[nodiscard]] Result<const std::byte*> RecordOf(const DeviceTask& task) const;

  kernels::cuda::Gpu& gpu_;
  const uint32_t staged_blocks_;  // as GateUpCall has it
  kernels::cuda::StreamHandle stream_ = nullptr;
  kernels::cuda::EventHandle done_ = nullptr;

  Mutex mu_;
  uint32_t hidden_ GUARDED_BY(mu_) = 0;  // the largest admitted
  uint32_t ffn_ GUARDED_BY(mu_) = 0;
  GpuBlock host_ GUARDED_BY(mu_);
  GpuBlock device_ GUARDED_BY(mu_);
  std::set<std::pair<kernels::WeightType, kernels::WeightType>> tried_ GUARDED_BY(mu_);
  // Of the piece: where each distinct row stands.
  std::unordered_map<const float*, uint32_t> rows_ GUARDED_BY(mu_);
};

}  // namespace moetier

#endif  // MOETIER_TIERS_DEVICE_GPU_LANE_H_
