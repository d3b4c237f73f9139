#include <cuda_runtime_api.h>

#include <vector>

#include "tests/unit/cuda/tested_gpu.h"

// The first GPU that CUDA's runtime finds as the tested GPU.

namespace moetier::kernels::cuda {
namespace {

class CudartWorkClock final : public WorkClock {
 public:
  CudartWorkClock(Gpu& gpu, StreamHandle stream)
      : gpu_(gpu), stream_(static_cast<cudaStream_t>(stream)) {}
  ~CudartWorkClock() override {
    for (cudaGraphExec_t graph : graphs_) cudaGraphExecDestroy(graph);
    if (begin_ != nullptr) cudaEventDestroy(begin_);
    if (end_ != nullptr) cudaEventDestroy(end_);
  }
  Status MakeEvents() {
    RETURN_IF_ERROR(gpu_.CheckLaunch(cudaEventCreate(&begin_)));
    return gpu_.CheckLaunch(cudaEventCreate(&end_));
  }

  Result<double> Seconds(const DeviceWork& work) override {
    RETURN_IF_ERROR(gpu_.CheckLaunch(cudaEventRecord(begin_, stream_)));
    RETURN_IF_ERROR(gpu_.CheckLaunch(work()));
    RETURN_IF_ERROR(gpu_.CheckLaunch(cudaEventRecord(end_, stream_)));
    RETURN_IF_ERROR(gpu_.CheckLaunch(cudaEventSynchronize(end_)));
    float milliseconds = 0;
    RETURN_IF_ERROR(gpu_.CheckLaunch(cudaEventElapsedTime(&milliseconds, begin_, end_)));
    return 1e-3 * static_cast<double>(milliseconds);
  }

  Result<DeviceWork> Capture(const DeviceWork& work) override {
    RETURN_IF_ERROR(
        gpu_.CheckLaunch(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal)));
    const int code = work();
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
    RETURN_IF_ERROR(gpu_.CheckLaunch(code));
    RETURN_IF_ERROR(gpu_.CheckLaunch(ended));
    cudaGraphExec_t executable = nullptr;
    const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    RETURN_IF_ERROR(gpu_.CheckLaunch(made));
    graphs_.push_back(executable);
    return DeviceWork([executable, stream = stream_] {
      return static_cast<int>(cudaGraphLaunch(executable, stream));
    });
  }

 private:
  Gpu& gpu_;
  const cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  std::vector<cudaGraphExec_t> graphs_;
};

}  // namespace

Result<std::unique_ptr<Gpu>> OpenTestedGpu(uint64_t) {
  ASSIGN_OR_RETURN(const std::vector<GpuInfo> gpus, FindGpus());
  return OpenGpu(gpus.front(), Sharing::kNone);
}

Result<std::unique_ptr<WorkClock>> NewWorkClock(Gpu& gpu, StreamHandle stream) {
  auto clock = std::make_unique<CudartWorkClock>(gpu, stream);
  RETURN_IF_ERROR(clock->MakeEvents());
  return std::unique_ptr<WorkClock>(std::move(clock));
}

}  // namespace moetier::kernels::cuda
