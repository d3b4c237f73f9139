#ifndef MOETIER_TESTS_GPU_STREAM_KERNELS_H_
#define MOETIER_TESTS_GPU_STREAM_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/expert_kernels.h"

// What the kernels' speed is held against: memory that is only read. Plain C++17.

namespace moetier::kernels::cuda {

// Reads `bytes`, a multiple of 16, once, 16 a thread and four at a time; `sink` takes 4 bytes that
// keep the reads alive. Returns the runtime's error code.
struct ReadStreamCall {
  const std::byte* from;  // 16-byte aligned
  size_t bytes;
  uint32_t* sink;
};
int LaunchReadStream(const ReadStreamCall& call, StreamHandle stream);

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_TESTS_GPU_STREAM_KERNELS_H_
