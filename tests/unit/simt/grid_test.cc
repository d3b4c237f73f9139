#include "kernels/cuda/simt/grid.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <vector>

#include "tests/unit/simt/test_device.h"

namespace moetier::simt {
namespace {

constexpr uint32_t kFull = 0xFFFFFFFF;
// ThreadSanitizer takes a millisecond a CUDA thread.
constexpr uint64_t kSeeds = kUnderThreadSanitizer ? 2 : 5;

// out[block] = sum of the block's values, by shuffles and shared memory.
__global__ void BlockSum(const float* in, float* out) {
  SIMT_SHARED(float, sums);
  const unsigned warp = threadIdx.x / 32;
  float sum = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (int bits = 16; bits > 0; bits /= 2) sum += __shfl_xor_sync(kFull, sum, bits);
  if (threadIdx.x % 32 == 0) sums[warp] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0;
    for (unsigned w = 0; w < blockDim.x / 32; ++w) total += sums[w];
    out[blockIdx.x] = total;
  }
}

// Each thread takes the value of the next; the missing barrier is the planted bug.
template <bool kBarrier>
__global__ void Rotate(const float* in, float* out) {
  SIMT_SHARED(float, values);
  const unsigned t = threadIdx.x;
  values[t] = in[t];
  if (kBarrier) __syncthreads();
  out[t] = values[(t + blockDim.x - 1) % blockDim.x];
}

// The last block to finish adds what all have written.
__global__ void LastBlockAdds(const int* in, int* partial, unsigned* finished, int* out) {
  const unsigned b = blockIdx.x;
  const int sum = __reduce_add_sync(kFull, in[b * 32 + threadIdx.x]);
  if (threadIdx.x != 0) return;
  partial[b] = sum;
  __threadfence();
  if (atomicAdd(finished, 1U) + 1 != gridDim.x) return;
  int total = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) total += partial[i];
  *out = total;
}

__global__ void ReadUnwritten(float* out) {
  SIMT_SHARED(float, values);
  out[threadIdx.x] = values[threadIdx.x];
}

__global__ void DivergentBarrier() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void LaneNotInMask() { __syncwarp(0x0000FFFF); }

__global__ void MixedMeeting(int* out) {
  if (threadIdx.x % 2 == 0) {
    out[threadIdx.x] = __shfl_sync(kFull, 1, 0);
  } else {
    out[threadIdx.x] = static_cast<int>(__ballot_sync(kFull, 1));
  }
}

__global__ void ShuffleFromAbsentLane(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0x0000FFFF, 1, 20);
}

__global__ void MaskWaitsForLeaver() {
  if (threadIdx.x == 7) return;
  __syncwarp();
}

__global__ void Deadlock() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else if (threadIdx.x == 32) {
    __syncwarp(0x00000003);
  } else if (threadIdx.x == 33) {
    __syncthreads();
  }
}

__global__ void SpinForEver(const int* flag) {
  while (*flag == 0) __nanosleep(10);
}

void CheckError(const std::string& message, const std::string& what) {
  CHECK_THAT(message, Catch::Contains(what));
  CHECK_THAT(message, Catch::Contains("block (0,0,0) thread ("));
  CHECK_THAT(message, Catch::Contains("grid_test.cc:"));
}

}  // namespace

TEST_CASE("Grid: a block sum is right for every seed", "[simt]") {
  std::vector<float> in(6 * 128);
  std::iota(in.begin(), in.end(), 1.0f);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<float> out(6, -1.0f);
    REQUIRE(RunKernel(seed, {6, 128, 16}, BlockSum, in.data(), out.data()) == "");
    for (unsigned b = 0; b < 6; ++b) {
      CHECK(out[b] == std::accumulate(in.begin() + 128 * b, in.begin() + 128 * (b + 1), 0.0f));
    }
  }
}

TEST_CASE("Grid: a missing barrier changes the result for some seed, a barrier for none",
          "[simt]") {
  std::vector<float> in(64);
  std::iota(in.begin(), in.end(), 1.0f);
  int wrong = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<float> good(64);
    std::vector<float> bad(64);
    REQUIRE(RunKernel(seed, {1, 64, 256}, Rotate<true>, in.data(), good.data()) == "");
    if (!kUnderThreadSanitizer) {  // which would report it: see sanitizer_cases.cc
      REQUIRE(RunKernel(seed, {1, 64, 256}, Rotate<false>, in.data(), bad.data()) == "");
    }
    for (unsigned t = 0; t < 64; ++t) CHECK(good[t] == in[(t + 63) % 64]);
    if (bad != good) ++wrong;
  }
  CHECK(wrong > 0);
}

TEST_CASE("Grid: the last block sees what the others wrote", "[simt]") {
  std::vector<int> in(9 * 32);
  std::iota(in.begin(), in.end(), 0);
  for (uint64_t seed = 0; seed < 4 * kSeeds; ++seed) {
    std::vector<int> partial(9);
    unsigned finished = 0;
    int out = 0;
    REQUIRE(RunKernel(seed, {9, 32, 0}, LastBlockAdds, in.data(), partial.data(), &finished,
                      &out) == "");
    CHECK(out == 9 * 32 * (9 * 32 - 1) / 2);
  }
}

TEST_CASE("Grid: shared memory that nobody wrote is NaN", "[simt]") {
  std::vector<float> out(32, 0.0f);
  REQUIRE(RunKernel(0, {1, 32, 128}, ReadUnwritten, out.data()) == "");
  for (const float value : out) CHECK(std::isnan(value));
}

TEST_CASE("Grid: errors name what, block, thread, file and line", "[simt]") {
  int flag = 0;
  std::vector<int> out(64);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    CheckError(RunKernel(seed, {1, 64, 0}, DivergentBarrier), "divergent barrier");
    CheckError(RunKernel(seed, {1, 32, 0}, LaneNotInMask), "not in its own mask");
    CheckError(RunKernel(seed, {1, 32, 0}, MixedMeeting, out.data()), "mixed meeting");
    CheckError(RunKernel(seed, {1, 32, 0}, ShuffleFromAbsentLane, out.data()),
               "shuffle from lane 20, which takes no part");
    CheckError(RunKernel(seed, {1, 32, 0}, MaskWaitsForLeaver), "lane 7");
    CheckError(RunKernel(seed, {1, 64, 0}, Deadlock), "deadlock: ");
    CheckError(RunKernel(seed, {1, 32, 0}, SpinForEver, &flag), "no end after");
  }
}

TEST_CASE("Launch: a shape beyond CUDA's limits is refused", "[simt]") {
  CHECK(RunKernel(0, {1, 1025, 0}, LaneNotInMask) == "refused with code 9");
  CHECK(RunKernel(0, {0, 32, 0}, LaneNotInMask) == "refused with code 9");
  CHECK(RunKernel(0, {1, 32, 49153}, LaneNotInMask) == "refused with code 9");
}

}  // namespace moetier::simt
