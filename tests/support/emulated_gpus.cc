// The GPUs of a daemon that is built over the emulator: three uneven cards. What a program with the
// CUDA backend does without a GPU is that backend's whole source but for the calls of CUDA's
// runtime. MOETIER_EMULATED_GPU_WAITS: after so many waits a card fails for good, each of them or
// the one of MOETIER_EMULATED_GPU_FAILS, by number; MOETIER_EMULATED_GPU_HANGS: it hangs then, and
// is waited for so many milliseconds. MOETIER_EMULATED_GPU_SEED: the order of blocks, threads and
// streams.

#include <cstdlib>
#include <string>

#include "kernels/cuda/emulated_gpu.h"

namespace moetier::kernels::cuda {
namespace {

uint64_t NumberFrom(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

GpuInfo Card(uint32_t ordinal, Bytes memory) {
  return {.ordinal = ordinal,
          .uuid = fmt::format("GPU-00000000-0000-0000-0000-{:012}", ordinal),
          .name = fmt::format("Emulated GPU {}", ordinal),
          .compute = 90,
          .memory = memory};
}

}  // namespace

Result<std::vector<GpuInfo>> FindGpus() {
  return std::vector<GpuInfo>{Card(0, 256_MiB), Card(1, 128_MiB), Card(2, 64_MiB)};
}

Result<std::unique_ptr<Gpu>> OpenGpu(const GpuInfo& gpu, Sharing sharing) {
  EmulatedGpu::Options options;
  options.info = gpu;
  options.granule = (2_MiB).count();
  options.sharing = sharing;
  options.grid.seed = NumberFrom("MOETIER_EMULATED_GPU_SEED");
  const char* const failing = std::getenv("MOETIER_EMULATED_GPU_FAILS");
  if (failing == nullptr || std::to_string(gpu.ordinal) == failing) {
    options.fails_after = NumberFrom("MOETIER_EMULATED_GPU_WAITS");
  }
  if (const uint64_t patience = NumberFrom("MOETIER_EMULATED_GPU_HANGS"); patience > 0) {
    options.hangs = true;
    options.longest_wait = std::chrono::milliseconds(patience);
  }
  return std::unique_ptr<Gpu>(std::make_unique<EmulatedGpu>(std::move(options)));
}

}  // namespace moetier::kernels::cuda
