// Kernels with one planted bug each, which a sanitizer must report, and right ones, on which it
// must be silent. Usage: PROGRAM CASE. Prints `no report` at the end if nothing stopped it.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "tests/unit/simt/test_device.h"

namespace moetier::simt {
namespace {

template <bool kBarrier>
__global__ void Rotate(const int* in, int* out) {
  SIMT_SHARED(int, values);
  const unsigned t = threadIdx.x;
  values[t] = in[t];
  if (kBarrier) __syncthreads();
  out[t] = values[(t + blockDim.x - 1) % blockDim.x];
}

// Lanes of one warp that read each other's stores.
template <bool kSync>
__global__ void RotateInWarp(const int* in, int* out) {
  SIMT_SHARED(int, values);
  const unsigned t = threadIdx.x;
  values[t] = in[t];
  if (kSync) __syncwarp();
  out[t] = values[t ^ 1];
}

__global__ void PlainSum(const int* in, int* out) { *out += in[threadIdx.x]; }
__global__ void AtomicSum(const int* in, int* out) { atomicAdd(out, in[threadIdx.x]); }

// Two blocks that write one place.
__global__ void BlocksCollide(int* out) { out[threadIdx.x] = static_cast<int>(blockIdx.x); }

// The last block reads what others wrote; the fence is what orders it.
template <bool kFence>
__global__ void LastBlockReads(unsigned* finished, int* partial, int* out) {
  if (threadIdx.x != 0) return;
  partial[blockIdx.x] = 1;
  if (kFence) __threadfence();
  if (atomicAdd(finished, 1U) + 1 != gridDim.x) return;
  int sum = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) sum += partial[b];
  *out = sum;
}

__global__ void StorePastEnd(int* out) { out[threadIdx.x + 1] = 1; }

__global__ void StorePastShared(int* out) {
  SIMT_SHARED(int, values);
  values[threadIdx.x + 1] = 1;
  out[threadIdx.x] = values[threadIdx.x];
}

__global__ void LoadInts(const char* in, int* out, unsigned stride) {
  out[threadIdx.x] = *reinterpret_cast<const int*>(in + stride * threadIdx.x);
}

std::string RunCase(std::string_view name) {
  const std::vector<int> in(64, 3);
  std::vector<int> out(64);
  std::vector<char> bytes(64 * 8);
  unsigned finished = 0;
  const LaunchShape one = {1, 64, 256};
  const LaunchShape warp = {1, 32, 128};
  const LaunchShape two = {2, 64, 256};
  if (name == "barrier") return RunKernel(1, one, Rotate<true>, in.data(), out.data());
  if (name == "missing_barrier") return RunKernel(1, one, Rotate<false>, in.data(), out.data());
  if (name == "syncwarp") return RunKernel(1, warp, RotateInWarp<true>, in.data(), out.data());
  if (name == "missing_syncwarp") {
    return RunKernel(1, warp, RotateInWarp<false>, in.data(), out.data());
  }
  if (name == "atomic_sum") return RunKernel(1, one, AtomicSum, in.data(), out.data());
  if (name == "plain_sum") return RunKernel(1, one, PlainSum, in.data(), out.data());
  if (name == "blocks_collide") return RunKernel(0, two, BlocksCollide, out.data());
  if (name == "fence") {
    return RunKernel(1, two, LastBlockReads<true>, &finished, out.data(), out.data() + 8);
  }
  if (name == "missing_fence") {
    return RunKernel(1, two, LastBlockReads<false>, &finished, out.data(), out.data() + 8);
  }
  if (name == "past_end") return RunKernel(1, one, StorePastEnd, out.data());
  if (name == "past_shared") return RunKernel(1, one, StorePastShared, out.data());
  if (name == "aligned") return RunKernel(1, one, LoadInts, bytes.data(), out.data(), 8U);
  if (name == "misaligned") return RunKernel(1, one, LoadInts, bytes.data(), out.data(), 6U);
  return "no such case";
}

}  // namespace
}  // namespace moetier::simt

int main(int argc, char** argv) {
  const std::string error = argc == 2 ? moetier::simt::RunCase(argv[1]) : "usage: PROGRAM CASE";
  if (!error.empty()) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return EXIT_FAILURE;
  }
  std::puts("no report");
  return EXIT_SUCCESS;
}
