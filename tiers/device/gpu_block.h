#ifndef MOETIER_TIERS_DEVICE_GPU_BLOCK_H_
#define MOETIER_TIERS_DEVICE_GPU_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "kernels/activation_rows.h"
#include "kernels/cuda/gpu.h"

namespace moetier {

enum class GpuMemory : uint8_t { kOfGpu, kOfHost };

// A block of the GPU's memory, or of the host's that both use. Lifetime: the GPU outlives it.
class GpuBlock {
 public:
  static Result<GpuBlock> Allocate(kernels::cuda::Gpu& gpu, GpuMemory memory, size_t bytes) {
    ASSIGN_OR_RETURN(std::byte* const begin,
                     memory == GpuMemory::kOfGpu ? gpu.Allocate(bytes) : gpu.AllocateHost(bytes));
    return GpuBlock(gpu, memory, begin);
  }

  GpuBlock() = default;
  [[nodiscard]] std::byte* data() const { return begin_.get(); }

 private:
  struct Free {
    kernels::cuda::Gpu* gpu;
    GpuMemory memory;
    void operator()(std::byte* begin) const {
      memory == GpuMemory::kOfGpu ? gpu->Free(begin) : gpu->FreeHost(begin);
    }
  };
  GpuBlock(kernels::cuda::Gpu& gpu, GpuMemory memory, std::byte* begin)
      : begin_(begin, Free{&gpu, memory}) {}

  std::unique_ptr<std::byte, Free> begin_;
};

// Carves a block into arrays, each at a multiple of 256 bytes. Over a null block it only counts.
class BlockPlan {
 public:
  explicit BlockPlan(std::byte* begin = nullptr) : begin_(begin) {}
  template <typename T>
  T* Next(size_t count) {
    auto* const at = reinterpret_cast<T*>(begin_ + bytes_);
    bytes_ = AlignUp(bytes_ + count * sizeof(T), 256);
    return at;
  }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  std::byte* begin_;
  size_t bytes_ = 0;
};

// Planes for `rows` rows of `columns` values, ready for dots.
inline kernels::cuda::PreparedRows PlanRows(BlockPlan& plan, uint32_t rows, uint32_t columns) {
  const uint32_t blocks = (columns + kernels::kActivationBlock - 1) / kernels::kActivationBlock;
  const size_t all = size_t{rows} * blocks;
  kernels::cuda::PreparedRows planes{};
  planes.values = plan.Next<float>(kernels::kActivationBlock * all);
  planes.codes = plan.Next<int8_t>(kernels::kActivationBlock * all);
  planes.scales = plan.Next<float>(all);
  planes.scaled_sums = plan.Next<float>(all);
  planes.half_sums = plan.Next<int32_t>(2 * all);
  planes.columns = columns;
  planes.blocks = blocks;
  return planes;
}

}  // namespace moetier

#endif  // MOETIER_TIERS_DEVICE_GPU_BLOCK_H_
