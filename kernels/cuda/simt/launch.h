#ifndef MOETIER_KERNELS_CUDA_SIMT_LAUNCH_H_
#define MOETIER_KERNELS_CUDA_SIMT_LAUNCH_H_

#include <cstddef>
#include <tuple>

#include "kernels/cuda/simt/grid.h"
#include "kernels/cuda/simt/host_types.h"
#include "kernels/cuda/simt/queues.h"

namespace moetier::simt {

// CUDA's limits for a launch without further attributes.
inline bool IsValid(const LaunchShape& shape) {
  const dim3& g = shape.grid;
  const dim3& b = shape.block;
  return g.x >= 1 && g.x <= 0x7FFFFFFF && g.y >= 1 && g.y <= 0xFFFF && g.z >= 1 && g.z <= 0xFFFF &&
         b.x >= 1 && b.y >= 1 && b.z >= 1 && b.z <= 64 && size_t{b.x} * b.y * b.z <= 1024 &&
         shape.shared_bytes <= size_t{48} << 10;
}

// Puts a kernel into a stream (a Stream of this emulator); it runs when the host waits for it, and
// an error of it is returned there. Returns 0, or CUDA's cudaErrorInvalidConfiguration.
template <class... Parameters, class... Arguments>
int Launch(const LaunchShape& shape, void* stream, void (*kernel)(Parameters...),
           const Arguments&... arguments) {
  constexpr int kInvalidConfiguration = 9;
  if (!IsValid(shape)) return kInvalidConfiguration;
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> arguments;
    static void Run(const void* call) {
      const auto& self = *static_cast<const Call*>(call);
      std::apply(self.kernel, self.arguments);
    }
  };
  auto& queue = *static_cast<Stream*>(stream);
  const Call call{kernel, std::tuple<Parameters...>(arguments...)};
  queue.device().Enqueue(queue, [call, shape, &device = queue.device()] {
    return Grid(device.options(), shape, &Call::Run, &call).Run();
  });
  return 0;
}

}  // namespace moetier::simt

#endif  // MOETIER_KERNELS_CUDA_SIMT_LAUNCH_H_
