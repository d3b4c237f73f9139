#include "kernels/cuda/simt/intrinsics.h"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/unit/simt/test_device.h"

namespace moetier::simt {
namespace {

constexpr uint32_t kFull = 0xFFFFFFFF;

// What each lane gets from each intrinsic: out[10 * lane + which].
__global__ void WarpIntrinsics(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  int* mine = out + 10 * lane;
  mine[0] = __shfl_sync(kFull, 100 + lane, 5);
  mine[1] = __shfl_sync(kFull, 100 + lane, 3, 8);
  mine[2] = __shfl_xor_sync(kFull, 100 + lane, 9);
  mine[3] = __shfl_down_sync(kFull, 100 + lane, 4);
  mine[4] = __shfl_up_sync(kFull, 100 + lane, 4, 16);
  mine[5] = static_cast<int>(__ballot_sync(kFull, lane % 3 == 0));
  mine[6] = __any_sync(kFull, lane == 31) + 2 * __all_sync(kFull, lane < 31);
  mine[7] = __reduce_max_sync(kFull, lane ^ 21);
  mine[8] = __reduce_min_sync(kFull, lane - 40);
  if (lane < 16) mine[9] = __reduce_add_sync(0x0000FFFF, lane);
}

// One thread's copies in two groups; the second may still be on its way when the first is read.
template <bool kWait>
__global__ void CopyAsync(const int4* in, int4* out) {
  SIMT_SHARED(int4, stage);
  const unsigned t = threadIdx.x;
  __pipeline_memcpy_async(&stage[t], &in[t], sizeof(int4));
  __pipeline_commit();
  __pipeline_memcpy_async(&stage[32 + t], &in[32 + t], sizeof(int4));
  __pipeline_commit();
  if (kWait) __pipeline_wait_prior(1);
  out[t] = stage[t];
  __syncwarp();
  if (kWait) __pipeline_wait_prior(0);
  out[32 + t] = stage[32 + t];
}

__global__ void MisalignedCopy(const char* in) {
  SIMT_SHARED(char, stage);
  __pipeline_memcpy_async(stage, in + 2, 4);
}

__global__ void ReadOnlyLoad(const int* in, int* out, bool of_stage) {
  SIMT_SHARED(int, stage);
  stage[threadIdx.x] = 1;
  out[threadIdx.x] = __ldg((of_stage ? stage : in) + threadIdx.x);
}

__global__ void CopyTo(int* in, int* out, bool from_stage, bool to_stage) {
  SIMT_SHARED(int, stage);
  __pipeline_memcpy_async(to_stage ? stage + 1 : out, from_stage ? stage : in, 4);
}

__global__ void CompareAndSwapAdds(int* sum) {
  int seen = atomicAdd(sum, 0);
  for (int old = seen - 1; old != seen;) {
    old = seen;
    seen = atomicCAS(sum, old, old + 1);
  }
}

}  // namespace

TEST_CASE("Intrinsics: each lane gets what CUDA gives it", "[simt]") {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    std::vector<int> out(320);
    REQUIRE(RunKernel(seed, {1, 32, 0}, WarpIntrinsics, out.data()) == "");
    for (int lane = 0; lane < 32; ++lane) {
      const int* got = out.data() + 10 * lane;
      CHECK(got[0] == 105);
      CHECK(got[1] == 100 + lane / 8 * 8 + 3);
      CHECK(got[2] == 100 + (lane ^ 9));
      CHECK(got[3] == 100 + (lane + 4 < 32 ? lane + 4 : lane));
      CHECK(got[4] == 100 + (lane % 16 >= 4 ? lane - 4 : lane));
      CHECK(got[5] == 0x49249249);
      CHECK(got[6] == 1);
      CHECK(got[7] == 31);
      CHECK(got[8] == -40);
      if (lane < 16) CHECK(got[9] == 120);
    }
  }
}

TEST_CASE("AsyncCopies: a copy is there after its wait, for some seed not before", "[simt]") {
  std::vector<int4> in(64);
  for (int i = 0; i < 64; ++i) in[static_cast<size_t>(i)] = {i, i + 1, i + 2, i + 3};
  const auto wrong = [&](const std::vector<int4>& out) {
    int count = 0;
    for (size_t i = 0; i < 64; ++i) count += out[i].x == in[i].x && out[i].w == in[i].w ? 0 : 1;
    return count;
  };
  for (uint64_t seed = 0; seed < 5; ++seed) {
    std::vector<int4> good(64);
    std::vector<int4> bad(64);
    REQUIRE(RunKernel(seed, {1, 32, 1024}, CopyAsync<true>, in.data(), good.data()) == "");
    REQUIRE(RunKernel(seed, {1, 32, 1024}, CopyAsync<false>, in.data(), bad.data()) == "");
    CHECK(wrong(good) == 0);
    CHECK(wrong(bad) > 0);
  }
}

TEST_CASE("AsyncCopies: a misaligned copy is an error", "[simt]") {
  alignas(16) const char in[16] = {};
  CHECK_THAT(RunKernel(0, {1, 32, 64}, MisalignedCopy, &in[0]),
             Catch::Contains("misaligned asynchronous copy of 4 bytes") &&
                 Catch::Contains("intrinsics_test.cc:"));
}

TEST_CASE("AsyncCopies: a copy that is not from global to shared memory is an error", "[simt]") {
  int in[2] = {};
  int out[2] = {};
  const auto run = [&](bool from_stage, bool to_stage) {
    return RunKernel(0, {1, 32, 64}, CopyTo, &in[0], &out[0], from_stage, to_stage);
  };
  const auto refused = Catch::Contains("not from global to shared memory");
  CHECK(run(false, true) == "");
  CHECK_THAT(run(false, false), refused);
  CHECK_THAT(run(true, true), refused);
}

TEST_CASE("Intrinsics: a read-only load of shared memory is an error", "[simt]") {
  std::vector<int> in(32, 7);
  std::vector<int> out(32);
  CHECK(RunKernel(0, {1, 32, 128}, ReadOnlyLoad, in.data(), out.data(), false) == "");
  CHECK(out == in);
  CHECK_THAT(RunKernel(0, {1, 32, 128}, ReadOnlyLoad, in.data(), out.data(), true),
             Catch::Contains("__ldg of shared memory") && Catch::Contains("intrinsics_test.cc:"));
}

TEST_CASE("Intrinsics: compare and swap loses no addition", "[simt]") {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    int sum = 0;
    REQUIRE(RunKernel(seed, {3, 64, 0}, CompareAndSwapAdds, &sum) == "");
    CHECK(sum == 192);
  }
}

TEST_CASE("Intrinsics: bytes are permuted and multiplied as CUDA does", "[simt]") {
  CHECK(__byte_perm(0x33221100, 0x77665544, 0x7041) == 0x77004411);
  CHECK(__dp4a(static_cast<int>(0x80FF7F01), 0x02030405, 10) == 10 + 5 + 127 * 4 - 3 - 128 * 2);
}

}  // namespace moetier::simt
