#ifndef MOETIER_KERNELS_CUDA_SIMT_SIMT_H_
#define MOETIER_KERNELS_CUDA_SIMT_SIMT_H_

// The one include of every kernel file. Under nvcc it stands for CUDA's own headers; under any
// other compiler the same source becomes a program that runs each CUDA thread as a fiber on the
// host (ARCHITECTURE.md, "CUDA kernels, with and without a GPU"). Kernel code keeps to C++17 and:
//   - takes shared memory from SIMT_SHARED only;
//   - uses full masks, blocks of whole warps, and __syncwarp where lanes read each other's stores;
//   - has PTX only inside small functions that have a host body too;
//   - does f32 arithmetic by __fmaf_rn, __fmul_rn, __fadd_rn, __fdiv_rn, so that every processor
//     gives the same bits.
// An intrinsic that the host lacks is a compile error there: add it, with a test.

#if defined(__CUDACC__)

#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

// T* name: the block's dynamic shared memory, whose size the launch gives.
#define SIMT_SHARED(T, name)                                          \
  extern __shared__ __align__(128) unsigned char simt_shared_bytes[]; \
  T* const name = reinterpret_cast<T*>(simt_shared_bytes)

namespace moetier::simt {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
};

// Puts a kernel into a stream (a cudaStream_t). Returns the runtime's error code, 0 for success.
template <class... Parameters, class... Arguments>
int Launch(const LaunchShape& shape, void* stream, void (*kernel)(Parameters...),
           const Arguments&... arguments) {
  kernel<<<shape.grid, shape.block, shape.shared_bytes, static_cast<cudaStream_t>(stream)>>>(
      Parameters(arguments)...);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace moetier::simt

#else

#include "kernels/cuda/simt/host_types.h"
#include "kernels/cuda/simt/intrinsics.h"
#include "kernels/cuda/simt/launch.h"

#endif

#endif  // MOETIER_KERNELS_CUDA_SIMT_SIMT_H_
