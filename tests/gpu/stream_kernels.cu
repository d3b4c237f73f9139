#include "kernels/cuda/simt/simt.h"
#include "tests/gpu/stream_kernels.h"

namespace moetier::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kLoads = 4;  // of 16 bytes, on the way at once in each thread

// A block reads kLoads runs of kThreads x 16 bytes, each run whole lines.
__global__ void __launch_bounds__(kThreads) ReadStreamKernel(ReadStreamCall call) {
  const auto* from = reinterpret_cast<const uint4*>(call.from);
  const size_t count = call.bytes / sizeof(uint4);
  const size_t first = size_t{blockIdx.x} * kLoads * kThreads + threadIdx.x;
  uint4 values[kLoads];
#pragma unroll
  for (uint32_t i = 0; i < kLoads; ++i) {
    const size_t at = first + size_t{i} * kThreads;
    values[i] = at < count ? __ldcs(from + at) : uint4{0, 0, 0, 0};
  }
  uint32_t joined = 0;
#pragma unroll
  for (uint32_t i = 0; i < kLoads; ++i) {
    joined ^= values[i].x ^ values[i].y ^ values[i].z ^ values[i].w;
  }
  if (joined == 0x9E3779B9U) *call.sink = joined;  // hardly ever
}

}  // namespace

int LaunchReadStream(const ReadStreamCall& call, StreamHandle stream) {
  constexpr size_t kBlockBytes = size_t{16} * kLoads * kThreads;
  const auto blocks = static_cast<uint32_t>((call.bytes + kBlockBytes - 1) / kBlockBytes);
  return simt::Launch({blocks, kThreads, 0}, stream, ReadStreamKernel, call);
}

}  // namespace moetier::kernels::cuda
