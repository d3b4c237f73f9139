// Gpu over CUDA's runtime.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/check.h"
#include "kernels/cuda/event_wait.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/nvcc/driver_memory.h"
#include "kernels/cuda/shown_ranges.h"

namespace moetier::kernels::cuda {
namespace {

// Clears what the runtime keeps of the error, so that the next call does not give it again.
Error Refused(const char* call, cudaError_t error) {
  (void)cudaGetLastError();
  const std::string message = fmt::format("{}: {}", call, cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) {
    return {ErrorCode::kExhausted, Reason::kMemoryLimit, message};
  }
  return {ErrorCode::kUnavailable, Reason::kIo, message};
}

Status Check(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return Ok{};
  return Refused(call, error);
}

// Of a call that gives something back: there is nothing to be done about its error, which the next
// launch on this thread would otherwise give as its own.
void Ignore(cudaError_t error) {
  if (error != cudaSuccess) (void)cudaGetLastError();
}

// "GPU-" and the bytes in groups of 4, 2, 2, 2 and 6, as nvidia-smi prints it.
std::string TextOf(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    const bool begins_group = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    text +=
        fmt::format("{}{:02x}", begins_group ? "-" : "", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

// By the data sheet: two transfers a clock over the width of the bus. 0 when it does not say.
double MemoryRate(int ordinal) {
  int clock_khz = 0;
  int bus_bits = 0;
  if (cudaDeviceGetAttribute(&clock_khz, cudaDevAttrMemoryClockRate, ordinal) != cudaSuccess ||
      cudaDeviceGetAttribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, ordinal) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return 2.0 * clock_khz * 1e3 * bus_bits / 8;
}

Result<GpuInfo> Describe(int ordinal) {
  cudaDeviceProp properties{};
  RETURN_IF_ERROR(Check("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, ordinal)));
  GpuInfo info;
  info.ordinal = static_cast<uint32_t>(ordinal);
  info.uuid = TextOf(properties.uuid);
  info.name = properties.name;
  info.compute = static_cast<uint32_t>(properties.major * 10 + properties.minor);
  info.memory = Bytes(properties.totalGlobalMem);
  info.memory_rate = MemoryRate(ordinal);
  return info;
}

class RuntimeGpu final : public Gpu {
 public:
  RuntimeGpu(GpuInfo info, std::unique_ptr<DriverMemory> memory)
      : info_(std::move(info)), memory_(std::move(memory)) {}
  ~RuntimeGpu() override {
    if (!UseHere()) return;
    for (const StreamHandle stream : streams_) {
      Ignore(cudaStreamDestroy(static_cast<cudaStream_t>(stream)));
    }
    for (const EventHandle event : events_) {
      Ignore(cudaEventDestroy(static_cast<cudaEvent_t>(event)));
    }
  }

  [[nodiscard]] const GpuInfo& info() const override { return info_; }
  [[nodiscard]] size_t granule() const override { return memory_->granule(); }

  Result<Bytes> FreeMemory() override {
    RETURN_IF_ERROR(UseHere());
    size_t free = 0;
    size_t total = 0;
    RETURN_IF_ERROR(Check("cudaMemGetInfo", cudaMemGetInfo(&free, &total)));
    return Bytes(free);
  }

  Result<std::byte*> Reserve(size_t bytes) override {
    RETURN_IF_ERROR(UseHere());
    return memory_->Reserve(bytes);
  }
  void Unreserve(std::byte* begin, size_t bytes) override {
    if (UseHere()) memory_->Unreserve(begin, bytes);
  }
  Status Map(std::byte* begin, size_t bytes) override {
    RETURN_IF_ERROR(UseHere());
    return memory_->Map(begin, bytes);
  }
  void Unmap(std::byte* begin, size_t bytes) override {
    if (UseHere()) memory_->Unmap(begin, bytes);
  }

  Result<ExportedMemory> Export(std::byte* begin, size_t bytes) override {
    RETURN_IF_ERROR(UseHere());
    return memory_->Export(begin, bytes);
  }

  Result<std::byte*> Allocate(size_t bytes) override {
    RETURN_IF_ERROR(UseHere());
    void* block = nullptr;
    RETURN_IF_ERROR(Check("cudaMalloc", cudaMalloc(&block, bytes)));
    return static_cast<std::byte*>(block);
  }
  Result<std::byte*> AllocateHost(size_t bytes) override {
    RETURN_IF_ERROR(UseHere());
    void* block = nullptr;
    RETURN_IF_ERROR(Check("cudaHostAlloc", cudaHostAlloc(&block, bytes, cudaHostAllocMapped)));
    return static_cast<std::byte*>(block);
  }
  void Free(std::byte* block) override {
    if (UseHere()) Ignore(cudaFree(block));
  }
  void FreeHost(std::byte* block) override {
    if (UseHere()) Ignore(cudaFreeHost(block));
  }

  Status ShowHost(std::span<std::byte> memory) override {
    RETURN_IF_ERROR(UseHere());
    return Shown().Show(memory.data(), info_.ordinal, [&] {
      return Check("cudaHostRegister",
                   cudaHostRegister(memory.data(), memory.size(),
                                    cudaHostRegisterMapped | cudaHostRegisterPortable));
    });
  }
  void HideHost(std::span<std::byte> memory) override {
    Shown().Hide(memory.data(), info_.ordinal, [&]() -> Status {
      RETURN_IF_ERROR(UseHere());
      return Check("cudaHostUnregister", cudaHostUnregister(memory.data()));
    });
  }
  Result<const std::byte*> AddressOf(const std::byte* host) override {
    RETURN_IF_ERROR(UseHere());
    void* address = nullptr;
    RETURN_IF_ERROR(
        Check("cudaHostGetDevicePointer",
              cudaHostGetDevicePointer(&address, const_cast<std::byte*>(host), 0)));  // NOLINT
    return static_cast<const std::byte*>(address);
  }

  Result<StreamHandle> NewStream() override {
    RETURN_IF_ERROR(UseHere());
    cudaStream_t stream = nullptr;
    RETURN_IF_ERROR(Check("cudaStreamCreateWithFlags",
                          cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)));
    return StreamHandle{streams_.emplace_back(stream)};
  }
  Result<EventHandle> NewEvent() override {
    RETURN_IF_ERROR(UseHere());
    cudaEvent_t event = nullptr;
    RETURN_IF_ERROR(Check("cudaEventCreateWithFlags",
                          cudaEventCreateWithFlags(&event, cudaEventDisableTiming)));
    return EventHandle{events_.emplace_back(event)};
  }

  Status Copy(void* to, const void* from, size_t bytes, StreamHandle stream) override {
    RETURN_IF_ERROR(UseHere());
    return Check("cudaMemcpyAsync", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault,
                                                    static_cast<cudaStream_t>(stream)));
  }
  Status Record(EventHandle event, StreamHandle stream) override {
    RETURN_IF_ERROR(UseHere());
    return Check("cudaEventRecord", cudaEventRecord(static_cast<cudaEvent_t>(event),
                                                    static_cast<cudaStream_t>(stream)));
  }
  Status Wait(EventHandle event, HostWait wait) override {
    RETURN_IF_ERROR(UseHere());
    cudaError_t error = cudaSuccess;
    Status came = AwaitEvent(wait, [&]() -> Result<bool> {
      error = cudaEventQuery(static_cast<cudaEvent_t>(event));
      if (error == cudaSuccess) return true;
      if (error != cudaErrorNotReady) return Refused("cudaEventQuery", error);
      (void)cudaGetLastError();
      return false;
    });
    if (!came && error == cudaErrorNotReady) GiveUp();
    return came;
  }
  void WaitIdle(StreamHandle stream) override {
    if (!UseHere()) return;
    const Status idle = AwaitEvent(HostWait::kSleep, [&]() -> Result<bool> {
      const cudaError_t error = cudaStreamQuery(static_cast<cudaStream_t>(stream));
      Ignore(error);
      return error != cudaErrorNotReady;
    });
    if (!idle) GiveUp();
  }
  [[nodiscard]] Status CheckLaunch(int code) const override {
    const auto error = static_cast<cudaError_t>(code);
    if (error != cudaErrorNoKernelImageForDevice) return Check("a kernel's launch", error);
    (void)cudaGetLastError();
    return Error{ErrorCode::kUnavailable, Reason::kIo,
                 fmt::format("{} has compute capability {}.{}, this build's kernels are for {}; "
                             "build with -DMOETIER_CUDA_ARCHITECTURES={}-real",
                             info_.name, info_.compute / 10, info_.compute % 10,
                             MOETIER_CUDA_BUILT_FOR, info_.compute)};
  }

 private:
  // The process's, as the driver's registrations are.
  static ShownRanges& Shown() {
    static ShownRanges ranges;
    return ranges;
  }
  void GiveUp() {
    given_up_.store(true);
    Shown().GiveUp();
  }
  // A thread's first use of the GPU; costs next to nothing later.
  [[nodiscard]] Status UseHere() const {
    if (given_up_.load(std::memory_order_relaxed)) {
      return Error{ErrorCode::kUnavailable, Reason::kIo,
                   fmt::format("{} did not answer and was given up", info_.name)};
    }
    return Check("cudaSetDevice", cudaSetDevice(static_cast<int>(info_.ordinal)));
  }

  const GpuInfo info_;
  const std::unique_ptr<DriverMemory> memory_;
  std::vector<StreamHandle> streams_;
  std::vector<EventHandle> events_;
  std::atomic<bool> given_up_{false};  // a flag alone: nothing is ordered by it
};

}  // namespace

Result<std::vector<GpuInfo>> FindGpus() {
  // Without a driver every other call says only that it is too old.
  int driver = 0;
  RETURN_IF_ERROR(Check("cudaDriverGetVersion", cudaDriverGetVersion(&driver)));
  if (driver == 0) return Error{ErrorCode::kNotFound, Reason::kIo, "no NVIDIA driver"};
  int count = 0;
  const cudaError_t count_error = cudaGetDeviceCount(&count);
  if (Status counted = Check("cudaGetDeviceCount", count_error); !counted) {
    counted.error().message += fmt::format(
        "; the driver is for CUDA {}.{}, this build of {}.{}. If nvidia-smi finds the GPU, see "
        "that "
        "/dev/nvidia-uvm is there (`nvidia-modprobe -u -c 0` makes it) and CUDA_VISIBLE_DEVICES is "
        "right",
        driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    if (count_error == cudaErrorNoDevice) counted.error().code = ErrorCode::kNotFound;
    return counted.error();
  }
  std::vector<GpuInfo> usable;
  std::string skipped;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Result<GpuInfo> info = Describe(ordinal);
    if (!info) {
      skipped += fmt::format("; GPU {}: {}", ordinal, info.error().message);
    } else if (info->compute >= MOETIER_CUDA_LEAST_COMPUTE) {
      usable.push_back(*std::move(info));
    } else {
      skipped += fmt::format("; {} has compute capability {}.{}, this build's kernels need {}.{}",
                             info->name, info->compute / 10, info->compute % 10,
                             MOETIER_CUDA_LEAST_COMPUTE / 10, MOETIER_CUDA_LEAST_COMPUTE % 10);
    }
  }
  if (!usable.empty()) return usable;
  return Error{ErrorCode::kUnavailable, Reason::kIo, "no usable GPU" + skipped};
}

Result<std::unique_ptr<Gpu>> OpenGpu(const GpuInfo& gpu, Sharing sharing) {
  const int ordinal = static_cast<int>(gpu.ordinal);
  RETURN_IF_ERROR(Check("cudaSetDevice", cudaSetDevice(ordinal)));
  RETURN_IF_ERROR(Check("cudaFree", cudaFree(nullptr)));  // makes the context
  ASSIGN_OR_RETURN(std::unique_ptr<DriverMemory> memory, DriverMemory::Create(ordinal, sharing));
  return std::unique_ptr<Gpu>(std::make_unique<RuntimeGpu>(gpu, std::move(memory)));
}

}  // namespace moetier::kernels::cuda
