#ifndef MOETIER_KERNELS_CUDA_ROWS16_FLOATS_H_
#define MOETIER_KERNELS_CUDA_ROWS16_FLOATS_H_

#include <cstdint>

#include "kernels/cuda/rows16_integers.h"

// The float weight types' rows16 bytes: pairs of columns of one row (0..15) of a group. First is
// column 2 * pair, Second the one after it. Device code, C++17.

namespace moetier::kernels::cuda {

struct Bf16 {
  static constexpr uint32_t kColumnBytes = 32;
  template <class Bytes>
  static __device__ float First(Bytes group, uint32_t row, uint32_t pair) {
    return __uint_as_float(Word(group + size_t{64} * pair + 4 * row) << 16);
  }
  template <class Bytes>
  static __device__ float Second(Bytes group, uint32_t row, uint32_t pair) {
    return __uint_as_float(Word(group + size_t{64} * pair + 4 * row) & 0xFFFF0000U);
  }
};

struct F16 {
  static constexpr uint32_t kColumnBytes = 32;
  template <class Bytes>
  static __device__ float First(Bytes group, uint32_t row, uint32_t pair) {
    return HalfToFloat(Word(group + size_t{64} * pair + 4 * row) & 0xFFFF);
  }
  template <class Bytes>
  static __device__ float Second(Bytes group, uint32_t row, uint32_t pair) {
    return HalfToFloat(Word(group + size_t{64} * pair + 4 * row) >> 16);
  }
};

struct F32 {
  static constexpr uint32_t kColumnBytes = 64;
  template <class Bytes>
  static __device__ float First(Bytes group, uint32_t row, uint32_t pair) {
    return __uint_as_float(Word(group + size_t{128} * pair + 4 * row));
  }
  template <class Bytes>
  static __device__ float Second(Bytes group, uint32_t row, uint32_t pair) {
    return __uint_as_float(Word(group + size_t{128} * pair + 64 + 4 * row));
  }
};

}  // namespace moetier::kernels::cuda

#endif  // MOETIER_KERNELS_CUDA_ROWS16_FLOATS_H_
