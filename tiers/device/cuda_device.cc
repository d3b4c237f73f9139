#include "tiers/device/cuda_device.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/text_size.h"

namespace moetier {

using kernels::cuda::HostWait;

namespace {

// Where measured costs begin for a card that does not say what it does.
constexpr double kMemoryRate = 500e9;  // bytes a second
constexpr double kLinkRate = 20e9;     // of 16 lanes of PCI Express 4.0
constexpr auto kCopyLatency = std::chrono::microseconds(10);
constexpr auto kHandOff = std::chrono::microseconds(20);  // a thread woken, three launches

DeviceDescription Describe(const CudaDevice::Options& options, const kernels::cuda::Gpu& gpu) {
  const kernels::cuda::GpuInfo& info = gpu.info();
  return {.name = options.name,
          .what = fmt::format("{}, {}, compute capability {}.{}", info.name, info.uuid,
                              info.compute / 10, info.compute % 10),
          .budget = options.budget,
          .granule = Bytes(gpu.granule()),
          .memory_rate = info.memory_rate > 0 ? info.memory_rate : kMemoryRate,
          .link_rate = kLinkRate,
          .copy_latency = kCopyLatency,
          .hand_off = kHandOff};
}

template <typename To>
To PointerOf(DeviceAddress address) {
  return reinterpret_cast<To>(
      Raw(address));  // NOLINT: the GPU's addresses are integers to the host
}

}  // namespace

Result<std::unique_ptr<CudaDevice>> CudaDevice::Create(Options options,
                                                       std::unique_ptr<kernels::cuda::Gpu> gpu,
                                                       const Clock& clock) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(std::move(options), std::move(gpu), clock));
  for (const RecordPlace place : {RecordPlace::kSlot, RecordPlace::kRam}) {
    ASSIGN_OR_RETURN(device->lanes_[static_cast<size_t>(place)],
                     GpuLane::Create(*device->gpu_, place));
  }
  ASSIGN_OR_RETURN(device->copies_, device->gpu_->NewStream());
  for (kernels::cuda::EventHandle& event : device->copied_) {
    ASSIGN_OR_RETURN(event, device->gpu_->NewEvent());
  }
  RETURN_IF_ERROR(device->SelfTest());
  return device;
}

CudaDevice::CudaDevice(Options options, std::unique_ptr<kernels::cuda::Gpu> gpu, const Clock& clock)
    : options_(std::move(options)),
      gpu_(std::move(gpu)),
      description_(Describe(options_, *gpu_)),
      suspended_(options_.times),
      buffers_(*gpu_, kCopiesAtOnce),
      budget_(options_.name, options_.budget, queues_),
      queues_({.device = options_.name, .number = options_.number, .copies_at_once = kCopiesAtOnce},
              clock, *this) {}

CudaDevice::~CudaDevice() { Stop(); }

// Host memory read by a kernel, its result copied back, and bytes that go there and back by copies:
// what every lane lives on. The kernel is the one that prepares rows; its first plane is the values
// themselves.
Status CudaDevice::SelfTest() {
  constexpr uint32_t kColumns = 1024;
  ASSIGN_OR_RETURN(const GpuBlock host,
                   GpuBlock::Allocate(*gpu_, GpuMemory::kOfHost, 2 * kColumns * sizeof(float)));
  BlockPlan size;
  PlanRows(size, 1, kColumns);
  ASSIGN_OR_RETURN(const GpuBlock device,
                   GpuBlock::Allocate(*gpu_, GpuMemory::kOfGpu, size.bytes()));
  BlockPlan plan(device.data());
  const kernels::cuda::PreparedRows rows = PlanRows(plan, 1, kColumns);
  auto* const sent = reinterpret_cast<float*>(host.data());
  float* const received = sent + kColumns;
  for (uint32_t i = 0; i < kColumns; ++i) sent[i] = static_cast<float>(i) + 0.25f;
  ASSIGN_OR_RETURN(const std::byte* const in_reach, gpu_->AddressOf(host.data()));
  RETURN_IF_ERROR(gpu_->CheckLaunch(kernels::cuda::LaunchPrepare(
      {.values = reinterpret_cast<const float*>(in_reach), .rows = 1, .out = rows}, copies_)));
  RETURN_IF_ERROR(gpu_->Copy(received, rows.values, kColumns * sizeof(float), copies_));
  RETURN_IF_ERROR(Finish());
  if (!std::equal(sent, sent + kColumns, received)) {
    return NotAsItWas("what a kernel read in the host's memory");
  }
  std::iota(sent, sent + kColumns, 0.5f);
  RETURN_IF_ERROR(gpu_->Copy(device.data(), sent, kColumns * sizeof(float), copies_));
  RETURN_IF_ERROR(gpu_->Copy(received, device.data(), kColumns * sizeof(float), copies_));
  RETURN_IF_ERROR(Finish());
  if (!std::equal(sent, sent + kColumns, received)) {
    return NotAsItWas("what was copied to the GPU");
  }
  return Ok{};
}

Status CudaDevice::Finish() {
  RETURN_IF_ERROR(gpu_->Record(copied_[0], copies_));
  return gpu_->Wait(copied_[0], HostWait::kSleep);
}

Error CudaDevice::NotAsItWas(std::string_view what) const {
  return Error{ErrorCode::kUnavailable, Reason::kIo,
               fmt::format("{}: {} did not come back as it was; the driver or the link is at fault",
                           gpu_->info().name, what)};
}

// Memory
// ------------------------------------------------------------------------------------------------

Status CudaDevice::Admit(const kernels::ExpertShape& shape, const kernels::RecordLayout& layout) {
  for (const std::unique_ptr<GpuLane>& lane : lanes_) RETURN_IF_ERROR(lane->Admit(shape, layout));
  return Ok{};
}

Status CudaDevice::ShowHost(std::span<std::byte> memory) {
  if (queues_.lost()) return Ok{};
  return gpu_->ShowHost(memory);
}

Result<std::unique_ptr<DeviceArena>> CudaDevice::Allocate(const ArenaPlan& plan,
                                                          std::string_view what) {
  ASSIGN_OR_RETURN(std::unique_ptr<GpuArena> arena, GpuArena::Create(*gpu_, budget_, plan, what));
  Bytes largest;
  for (const ArenaRegion& region : plan.regions) largest = std::max(largest, region.slot_bytes);
  RETURN_IF_ERROR(buffers_.Grow(largest.count()));
  return std::unique_ptr<DeviceArena>(std::move(arena));
}

// Work
// ------------------------------------------------------------------------------------------------

// What a copy that failed may still do ends before its memory is anybody else's.
Status CudaDevice::BeginCopy(const DeviceCopy& copy, uint32_t place) {
  Status begun = Enqueue(copy, place);
  if (!begun) EndFailedCopy(begun.error());
  return begun;
}

Status CudaDevice::Enqueue(const DeviceCopy& copy, uint32_t place) {
  if (const auto* in = std::get_if<CopyIn>(&copy)) {
    landings_[place] = {};
    RETURN_IF_ERROR(
        gpu_->Copy(PointerOf<void*>(in->to), in->from.data(), in->from.size(), copies_));
  } else {
    const CopyOut& out = std::get<CopyOut>(copy);
    std::byte* const buffer = buffers_.At(place, out.to.size());
    landings_[place] = {.from = buffer, .to = out.to};
    RETURN_IF_ERROR(gpu_->Copy(buffer, PointerOf<const void*>(out.from), out.to.size(), copies_));
  }
  return gpu_->Record(copied_[place], copies_);
}

// The loss is told first: what may be waited for is long.
void CudaDevice::EndFailedCopy(const Error& why) {
  queues_.Lose(why.message);
  gpu_->WaitIdle(copies_);
}

Result<DeviceOutcome> CudaDevice::EndCopy(uint32_t place) {
  if (Status ended = gpu_->Wait(copied_[place], HostWait::kSleep); !ended) {
    EndFailedCopy(ended.error());
    return ended.error();
  }
  RETURN_IF_ERROR(CheckAwake());
  const Landing& landed = landings_[place];
  std::copy_n(landed.from, landed.to.size(), landed.to.data());
  return DeviceOutcome::kDone;
}

Status CudaDevice::Compute(RecordPlace place, const std::vector<DeviceTask>& tasks) {
  RETURN_IF_ERROR(lanes_[static_cast<size_t>(place)]->Compute(tasks));
  return CheckAwake();
}

Status CudaDevice::CheckAwake() const {
  if (!suspended_.WasSuspended()) return Ok{};
  return Error{ErrorCode::kUnavailable, Reason::kIo,
               "the host was suspended, and a driver may lose what is in a GPU's memory then; "
               "restart the daemon to use it again"};
}

}  // namespace moetier
