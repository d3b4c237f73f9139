#include <cuda_runtime_api.h>

#include <vector>

#include "base/check.h"
#include "tests/unit/cuda/kernel_device.h"

// A GPU as a KernelDevice: the first one that CUDA's runtime finds.

namespace moetier::kernels::cuda {
namespace {

Status Check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return Ok{};
  return Error{code == cudaErrorMemoryAllocation ? ErrorCode::kExhausted : ErrorCode::kInternal,
               Reason::kUnspecified,
               fmt::format("{}: {} ({})", what, cudaGetErrorString(code), static_cast<int>(code))};
}

Error NoDevice(std::string why) {
  return {ErrorCode::kUnavailable, Reason::kUnspecified, "no GPU: " + std::move(why)};
}

}  // namespace

struct KernelDevice::State {
  ~State() {
    for (cudaGraphExec_t graph : graphs) cudaGraphExecDestroy(graph);
    for (void* block : blocks) cudaFree(block);
    for (void* block : host_blocks) cudaFreeHost(block);
    if (begin != nullptr) cudaEventDestroy(begin);
    if (end != nullptr) cudaEventDestroy(end);
    if (stream != nullptr) cudaStreamDestroy(stream);
  }

  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  std::vector<void*> blocks;
  std::vector<void*> host_blocks;
  std::vector<cudaGraphExec_t> graphs;
  Facts facts;
};

KernelDevice::KernelDevice(std::unique_ptr<State> state) : state_(std::move(state)) {}
KernelDevice::~KernelDevice() = default;

Result<std::unique_ptr<KernelDevice>> KernelDevice::Open(uint64_t) {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) {
    return NoDevice("no NVIDIA driver answers");
  }
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess || count == 0) {
    return NoDevice(counted == cudaSuccess ? "the driver has none" : cudaGetErrorString(counted));
  }
  auto state = std::make_unique<State>();
  cudaDeviceProp properties{};
  RETURN_IF_ERROR(Check(cudaSetDevice(0), "choose GPU 0"));
  RETURN_IF_ERROR(Check(cudaGetDeviceProperties(&properties, 0), "ask for GPU 0's properties"));
  RETURN_IF_ERROR(
      Check(cudaStreamCreateWithFlags(&state->stream, cudaStreamNonBlocking), "make a stream"));
  RETURN_IF_ERROR(Check(cudaEventCreate(&state->begin), "make an event"));
  RETURN_IF_ERROR(Check(cudaEventCreate(&state->end), "make an event"));
  size_t free_bytes = 0;
  size_t all_bytes = 0;
  RETURN_IF_ERROR(Check(cudaMemGetInfo(&free_bytes, &all_bytes), "ask for free memory"));
  state->facts = {.name = properties.name,
                  .compute = static_cast<uint32_t>(10 * properties.major + properties.minor),
                  .free_bytes = free_bytes,
                  .cache_bytes = static_cast<size_t>(properties.l2CacheSize),
                  .emulated = false};
  return std::unique_ptr<KernelDevice>(new KernelDevice(std::move(state)));
}

const KernelDevice::Facts& KernelDevice::facts() const { return state_->facts; }
StreamHandle KernelDevice::stream() const { return state_->stream; }

Result<std::byte*> KernelDevice::Allocate(size_t bytes, Memory memory) {
  void* block = nullptr;
  if (memory == Memory::kDevice) {
    RETURN_IF_ERROR(Check(cudaMalloc(&block, bytes), "allocate the GPU's memory"));
    state_->blocks.push_back(block);
  } else {  // with unified addresses the kernels' address is the host's
    RETURN_IF_ERROR(
        Check(cudaHostAlloc(&block, bytes, cudaHostAllocMapped), "allocate mapped memory"));
    state_->host_blocks.push_back(block);
  }
  return static_cast<std::byte*>(block);
}

Status KernelDevice::Copy(void* to, const void* from, size_t bytes) {
  return Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, state_->stream), "copy");
}

Status KernelDevice::Wait() { return Check(cudaStreamSynchronize(state_->stream), "wait"); }

Status KernelDevice::Run(const Work& work) {
  RETURN_IF_ERROR(Check(static_cast<cudaError_t>(work()), "launch"));
  return Wait();
}

Result<double> KernelDevice::Seconds(const Work& work) {
  RETURN_IF_ERROR(Check(cudaEventRecord(state_->begin, state_->stream), "record"));
  RETURN_IF_ERROR(Check(static_cast<cudaError_t>(work()), "launch"));
  RETURN_IF_ERROR(Check(cudaEventRecord(state_->end, state_->stream), "record"));
  RETURN_IF_ERROR(Check(cudaEventSynchronize(state_->end), "wait"));
  float milliseconds = 0;
  RETURN_IF_ERROR(
      Check(cudaEventElapsedTime(&milliseconds, state_->begin, state_->end), "ask for the time"));
  return 1e-3 * static_cast<double>(milliseconds);
}

Result<KernelDevice::Work> KernelDevice::Capture(const Work& work) {
  RETURN_IF_ERROR(Check(cudaStreamBeginCapture(state_->stream, cudaStreamCaptureModeThreadLocal),
                        "begin a capture"));
  const int code = work();
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(state_->stream, &graph);
  RETURN_IF_ERROR(Check(static_cast<cudaError_t>(code), "launch"));
  RETURN_IF_ERROR(Check(ended, "end a capture"));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  RETURN_IF_ERROR(Check(made, "make a graph"));
  state_->graphs.push_back(executable);
  return Work([executable, stream = state_->stream] {
    return static_cast<int>(cudaGraphLaunch(executable, stream));
  });
}

}  // namespace moetier::kernels::cuda
