#include <array>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "kernels/cuda/integer_mma.h"
#include "tests/unit/simt/test_device.h"

namespace moetier::kernels::cuda {
namespace {

using simt::RunKernel;

// Row-major matrices of one step, with kColumns columns of `a`.
template <unsigned kColumns>
struct Step {
  int8_t a[16][kColumns];
  int8_t b[kColumns][8];
  int32_t c[16][8];
};

// What a planted fault does to the lanes' words.
enum class Fault { kNone, kSwapWords, kNeighbourColumn, kLanesOtherwise };

// Loads element by element as the instruction's documentation numbers them: a_i of a lane, b_i and
// c_i, whatever registers they share.
template <unsigned kColumns>
__global__ void RunStep(const Step<kColumns>* in, int32_t* out, Fault fault) {
  const unsigned lane =
      fault == Fault::kLanesOtherwise ? threadIdx.x % 8 * 4 + threadIdx.x / 8 : threadIdx.x;
  const unsigned group = lane >> 2;
  const unsigned member = lane % 4;
  uint32_t a[kColumns / 8] = {};
  uint32_t b[kColumns / 16] = {};
  int32_t c[4];
  for (unsigned i = 0; i < kColumns / 2; ++i) {
    const bool upper = kColumns == 16 ? i < 4 : i < 4 || (i >= 8 && i < 12);
    const unsigned row = upper ? group : group + 8;
    const unsigned column = member * 4 + (i & 3) + (i >= 8 ? 16 : 0);
    a[i / 4] |= uint32_t{static_cast<uint8_t>(in->a[row][column])} << (8 * (i % 4));
  }
  for (unsigned i = 0; i < kColumns / 4; ++i) {
    const unsigned row = member * 4 + (i & 3) + (i >= 4 ? 16 : 0);
    const unsigned column = fault == Fault::kNeighbourColumn ? group ^ 1 : group;
    b[i / 4] |= uint32_t{static_cast<uint8_t>(in->b[row][column])} << (8 * (i % 4));
  }
  for (unsigned i = 0; i < 4; ++i) {
    c[i] = in->c[i < 2 ? group : group + 8][member * 2 + (i & 1)];
  }
  if (fault == Fault::kSwapWords) {
    const uint32_t first = a[0];
    a[0] = a[1];
    a[1] = first;
  }
  if constexpr (kColumns == 16) {
    MultiplyBytes16(c, a, b);
  } else {
    MultiplyBytes32(c, a, b);
  }
  for (unsigned i = 0; i < 4; ++i) {
    out[8 * (i < 2 ? group : group + 8) + member * 2 + (i & 1)] = c[i];
  }
}

template <unsigned kColumns>
Step<kColumns> RandomStep(uint64_t seed) {
  std::mt19937_64 random(seed);
  Step<kColumns> step;
  for (auto& row : step.a) {
    for (int8_t& value : row) value = static_cast<int8_t>(random());
  }
  for (auto& row : step.b) {
    for (int8_t& value : row) value = static_cast<int8_t>(random());
  }
  for (auto& row : step.c) {
    for (int32_t& value : row) value = static_cast<int32_t>(random());
  }
  return step;
}

// Elements that differ from three plain loops over int64, wrapped.
template <unsigned kColumns>
int WrongElements(const Step<kColumns>& step, Fault fault) {
  std::array<int32_t, 128> out{};
  REQUIRE(RunKernel(1, {1, 32, 0}, RunStep<kColumns>, &step, out.data(), fault) == "");
  int wrong = 0;
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      int64_t sum = step.c[row][column];
      for (size_t k = 0; k < kColumns; ++k) sum += step.a[row][k] * step.b[k][column];
      if (out[8 * row + column] != static_cast<int32_t>(sum)) ++wrong;
    }
  }
  return wrong;
}

__global__ void StepAtTwoPlaces(int32_t* out) {
  const uint32_t a[2] = {};
  const uint32_t b[1] = {};
  int32_t c[4] = {};
  if (threadIdx.x < 16) {
    MultiplyBytes16(c, a, b);
  } else {
    MultiplyBytes16(c, a, b);
  }
  out[threadIdx.x] = c[0];
}

__global__ void StepOfTwoShapes(int32_t* out) {
  const uint32_t a[4] = {};
  const uint32_t b[2] = {};
  const uint32_t half_a[2] = {};
  const uint32_t half_b[1] = {};
  int32_t c[4] = {};
  if (threadIdx.x < 16) {
    MultiplyBytes16(c, half_a, half_b);
  } else {
    MultiplyBytes32(c, a, b);
  }
  out[threadIdx.x] = c[0];
}

__global__ void StepWithoutLane(int32_t* out) {
  const uint32_t a[2] = {};
  const uint32_t b[1] = {};
  int32_t c[4] = {};
  if (threadIdx.x == 9) return;
  MultiplyBytes16(c, a, b);
  out[threadIdx.x] = c[0];
}

}  // namespace

TEST_CASE("MultiplyBytes: a step of 16 and of 32 columns gives what three loops give", "[simt]") {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    CHECK(WrongElements(RandomStep<16>(seed), Fault::kNone) == 0);
    CHECK(WrongElements(RandomStep<32>(seed), Fault::kNone) == 0);
  }
}

TEST_CASE("MultiplyBytes: operands in another layout than PTX's give something else", "[simt]") {
  for (const Fault fault : {Fault::kSwapWords, Fault::kNeighbourColumn}) {
    CHECK(WrongElements(RandomStep<16>(4), fault) > 64);
    CHECK(WrongElements(RandomStep<32>(4), fault) > 64);
  }
  // Every operand and the result by another lane: only the instruction's own layout notices.
  CHECK(WrongElements(RandomStep<16>(4), Fault::kLanesOtherwise) > 64);
  CHECK(WrongElements(RandomStep<32>(4), Fault::kLanesOtherwise) > 64);
}

TEST_CASE("MultiplyBytes: a warp that is not whole and at one place is an error", "[simt]") {
  std::array<int32_t, 32> out{};
  for (uint64_t seed = 0; seed < 3; ++seed) {
    CHECK_THAT(RunKernel(seed, {1, 32, 0}, StepAtTwoPlaces, out.data()),
               Catch::Contains("reach at different places") &&
                   Catch::Contains("tensor_operations_test.cc:"));
    CHECK_THAT(RunKernel(seed, {1, 32, 0}, StepOfTwoShapes, out.data()),
               Catch::Contains("mixed meeting"));
    CHECK_THAT(RunKernel(seed, {1, 32, 0}, StepWithoutLane, out.data()), Catch::Contains("lane 9"));
  }
}

}  // namespace moetier::kernels::cuda
