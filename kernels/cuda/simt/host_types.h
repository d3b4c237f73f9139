#ifndef MOETIER_KERNELS_CUDA_SIMT_HOST_TYPES_H_
#define MOETIER_KERNELS_CUDA_SIMT_HOST_TYPES_H_

// CUDA's built-in types and qualifiers for the host, so that no toolkit is needed. Vector types
// have CUDA's alignment: UBSan then sees a misaligned wide load.

// Anything but the dynamic shared memory of SIMT_SHARED would not be poisoned: __shared__ is left
// undefined on purpose.
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1)
      : x(x_size), y(y_size), z(z_size) {}
};

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

#endif  // MOETIER_KERNELS_CUDA_SIMT_HOST_TYPES_H_
