#include "tiers/device/emulated_device.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "base/check.h"
#include "base/text_size.h"
#include "tiers/device/slot_granules.h"
#include "tiers/memory_limits.h"

namespace moetier {
namespace {

// Bytes a second that one thread streams from a homelab box's memory: where measured costs begin.
constexpr double kMemoryRate = 20e9;
constexpr auto kHandOff = std::chrono::microseconds(10);  // a thread that sleeps is woken

template <typename To>
To PointerOf(DeviceAddress address) {
  return reinterpret_cast<To>(Raw(address));  // NOLINT: the device's memory is the host's
}

size_t CopyBytes(const DeviceCopy& copy) {
  if (const auto* in = std::get_if<CopyIn>(&copy)) return in->from.size();
  return std::get<CopyOut>(copy).to.size();
}

void Perform(const DeviceCopy& copy) {
  if (const auto* in = std::get_if<CopyIn>(&copy)) {
    std::memcpy(PointerOf<std::byte*>(in->to), in->from.data(), in->from.size());
  } else {
    const CopyOut& out = std::get<CopyOut>(copy);
    std::memcpy(out.to.data(), PointerOf<const std::byte*>(out.from), out.to.size());
  }
}

}  // namespace

// The memory is taken and given back by the slot, the budget by the granule.
class EmulatedDevice::HostArena final : public DeviceArena {
 public:
  // Has DeviceMemory of the plan from the device's budget.
  HostArena(EmulatedDevice& device, std::unique_ptr<Arena> memory, std::string_view what)
      : device_(device), memory_(std::move(memory)), what_(what) {
    const ArenaPlan& plan = memory_->plan();
    for (size_t i = 0; i < plan.regions.size(); ++i) {
      const SizeClass size_class{static_cast<uint8_t>(i)};
      granules_.emplace_back(plan.regions[i].slot_bytes, device.options_.granule,
                             Places(size_class));
      granules_.back().Add(SlotIndex{0}, plan.regions[i].slots);
    }
    size_ = DeviceMemory(plan, device.options_.granule).count();
  }
  ~HostArena() override { device_.GiveBack(size()); }

  [[nodiscard]] uint32_t Places(SizeClass size_class) const override {
    return memory_->Places(size_class);
  }
  [[nodiscard]] DeviceAddress Slot(SizeClass size_class, SlotIndex slot) const override {
    return DeviceAddress{reinterpret_cast<uint64_t>(memory_->Slot(size_class, slot).data())};
  }
  void GiveBack(SizeClass size_class, SlotIndex slot) override {
    SlotGranules& granules = granules_[Raw(size_class)];
    memory_->GiveBack(size_class, slot);
    const Bytes freed = granules.Size(granules.Remove(slot));
    size_ -= freed.count();
    device_.GiveBack(freed);
  }
  Status Take(SizeClass size_class, SlotIndex first, uint32_t count) override {
    SlotGranules& granules = granules_[Raw(size_class)];
    Bytes lacking;
    for (const SlotGranules::Run& run : granules.Lacking(first, count)) {
      lacking += granules.Size(run);
    }
    RETURN_IF_ERROR(device_.TakeBudget(lacking, what_));
    if (const Status taken = TakeMemory(size_class, first, count); !taken) {
      device_.GiveBack(lacking);
      return taken;
    }
    granules.Add(first, count);
    size_ += lacking.count();
    return Ok{};
  }
  [[nodiscard]] Bytes size() const override { return Bytes(size_); }

 private:
  Status TakeMemory(SizeClass size_class, SlotIndex first, uint32_t count) {
    const ArenaOptions& options = device_.options_.memory;
    ASSIGN_OR_RETURN(const MemoryLimits limits, ReadMemoryLimits(options.roots));
    const Bytes wanted = memory_->plan().regions[Raw(size_class)].slot_bytes * count;
    RETURN_IF_ERROR(
        CheckBudget(limits, {.what = what_, .wanted = wanted, .reserve = options.reserve}));
    return memory_->Take(size_class, first, count);
  }

  EmulatedDevice& device_;
  const std::unique_ptr<Arena> memory_;
  const std::string what_;
  std::vector<SlotGranules> granules_;  // by size class
  std::atomic<uint64_t> size_{0};       // a gauge for the status, which orders nothing
};

EmulatedDevice::EmulatedDevice(Options options, const Clock& clock,
                               const kernels::ExpertKernels& kernels)
    : options_(std::move(options)),
      clock_(clock),
      kernels_(kernels),
      description_{.kind = "emulated",
                   .name = options_.name,
                   .budget = options_.budget,
                   .granule = options_.granule,
                   .memory_rate = kMemoryRate,
                   .link_rate = options_.copy_rate,
                   .copy_latency = options_.copy_latency,
                   .hand_off = kHandOff} {}

EmulatedDevice::~EmulatedDevice() {
  Stop();
  MutexLock lock(mu_);
  MOE_CHECK(taken_ == Bytes(), "{} of {} are still in arenas", FormatSize(taken_), options_.name);
}

void EmulatedDevice::Start(DeviceListener& listener) {
  listener_ = &listener;
  copy_thread_ = std::jthread([this] {
    pthread_setname_np(pthread_self(), "device-copy");
    CopyLoop();
  });
  run_thread_ = std::jthread([this] {
    pthread_setname_np(pthread_self(), "device-run");
    RunLoop();
  });
}

void EmulatedDevice::Stop() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (copy_thread_.joinable()) copy_thread_.join();
  if (run_thread_.joinable()) run_thread_.join();
}

Bytes EmulatedDevice::free() const {
  MutexLock lock(mu_);
  return options_.budget - taken_;
}

Result<std::unique_ptr<DeviceArena>> EmulatedDevice::Allocate(const ArenaPlan& plan,
                                                              std::string_view what) {
  const Bytes wanted = DeviceMemory(plan, options_.granule);
  RETURN_IF_ERROR(TakeBudget(wanted, what));
  ArenaOptions memory = options_.memory;
  memory.what = what;
  if (IsHugetlb(memory.pages)) memory.pages = PageSize::kTransparent;  // that pool takes none back
  Result<std::unique_ptr<Arena>> arena = Arena::Create(plan, memory);
  if (!arena.has_value()) {
    GiveBack(wanted);
    return std::move(arena).error();
  }
  return std::unique_ptr<DeviceArena>(std::make_unique<HostArena>(*this, *std::move(arena), what));
}

Status EmulatedDevice::TakeBudget(Bytes bytes, std::string_view what) {
  MutexLock lock(mu_);
  if (lost_) {
    return Error{ErrorCode::kUnavailable, Reason::kIo,
                 fmt::format("{}: device {} is lost", what, options_.name)};
  }
  if (bytes > options_.budget - taken_) {
    return Error{ErrorCode::kExhausted, Reason::kNoRoom,
                 fmt::format("{}: {} do not fit in device {}, which has {} left of {}; lower it "
                             "or raise devices[].budget",
                             what, FormatSize(bytes), options_.name,
                             FormatSize(options_.budget - taken_), FormatSize(options_.budget))};
  }
  taken_ += bytes;
  return Ok{};
}

void EmulatedDevice::GiveBack(Bytes bytes) {
  MutexLock lock(mu_);
  taken_ -= bytes;
}

void EmulatedDevice::Copy(CopyId id, const DeviceCopy& copy) {
  {
    MutexLock lock(mu_);
    copies_.push_back({.id = id, .copy = copy});
  }
  changed_.notify_all();
}

void EmulatedDevice::CancelCopy(CopyId id) {
  MutexLock lock(mu_);
  for (QueuedCopy& queued : copies_) {
    if (queued.id == id) queued.cancelled = true;
  }
}

void EmulatedDevice::Run(RunId id, std::vector<DeviceTask> tasks) {
  {
    MutexLock lock(mu_);
    runs_.push_back({.id = id, .tasks = std::move(tasks)});
  }
  changed_.notify_all();
}

void EmulatedDevice::FailCopies(uint32_t count) {
  MutexLock lock(mu_);
  failing_copies_ = count;
}

void EmulatedDevice::Lose(std::string_view why) {
  {
    MutexLock lock(mu_);
    if (std::exchange(lost_, true)) return;
  }
  listener_->OnDeviceLost({ErrorCode::kUnavailable, Reason::kIo,
                           fmt::format("device {} is lost: {}", options_.name, why)});
}

bool EmulatedDevice::BeginWork() {
  bool loses = false;
  {
    MutexLock lock(mu_);
    if (lost_) return false;
    loses = ++work_begun_ == options_.lost_after;
  }
  if (loses)
    Lose(
        fmt::format("after {} copies and runs, as devices[].lost_after says", options_.lost_after));
  return !loses;
}

bool EmulatedDevice::FailsNow() {
  MutexLock lock(mu_);
  if (failing_copies_ == 0) return false;
  --failing_copies_;
  return true;
}

std::optional<EmulatedDevice::QueuedCopy> EmulatedDevice::NextCopy() {
  MutexLock lock(mu_);
  while (copies_.empty() && !stopping_) changed_.wait(mu_);
  if (copies_.empty()) return std::nullopt;
  QueuedCopy next = copies_.front();
  copies_.pop_front();
  if (stopping_) next.cancelled = true;
  return next;
}

std::optional<EmulatedDevice::QueuedRun> EmulatedDevice::NextRun() {
  MutexLock lock(mu_);
  while (runs_.empty() && !stopping_) changed_.wait(mu_);
  if (runs_.empty()) return std::nullopt;
  QueuedRun next = std::move(runs_.front());
  runs_.pop_front();
  next.cancelled = stopping_;
  return next;
}

void EmulatedDevice::CopyLoop() {
  while (const std::optional<QueuedCopy> next = NextCopy()) {
    listener_->OnCopy({.id = next->id, .outcome = Perform(*next)});
  }
}

DeviceOutcome EmulatedDevice::Perform(const QueuedCopy& queued) {
  if (queued.cancelled) return DeviceOutcome::kCancelled;
  if (!BeginWork() || FailsNow()) return DeviceOutcome::kFailed;
  const TimePoint begin = clock_.Now();
  moetier::Perform(queued.copy);
  options_.wait_until(begin + options_.copy_latency + LinkTime(CopyBytes(queued.copy)));
  return DeviceOutcome::kDone;
}

void EmulatedDevice::RunLoop() {
  while (const std::optional<QueuedRun> next = NextRun()) {
    const TimePoint begin = clock_.Now();
    const DeviceOutcome outcome = Compute(*next);
    listener_->OnRun({.id = next->id, .outcome = outcome, .busy = clock_.Now() - begin});
  }
}

DeviceOutcome EmulatedDevice::Compute(const QueuedRun& queued) {
  if (queued.cancelled) return DeviceOutcome::kCancelled;
  if (!BeginWork()) return DeviceOutcome::kFailed;
  const TimePoint begin = clock_.Now();
  size_t over_link = 0;
  for (const DeviceTask& task : queued.tasks) {
    if (std::holds_alternative<const std::byte*>(task.record)) over_link += task.layout->bytes;
    RunTask(task);
  }
  if (over_link > 0) options_.wait_until(begin + LinkTime(over_link));
  return DeviceOutcome::kDone;
}

void EmulatedDevice::RunTask(const DeviceTask& task) {
  const auto* const* in_ram = std::get_if<const std::byte*>(&task.record);
  const std::byte* const record =
      in_ram != nullptr ? *in_ram
                        : PointerOf<const std::byte*>(std::get<DeviceAddress>(task.record));
  const kernels::ExpertView expert{.shape = task.shape, .layout = task.layout, .record = record};
  for (size_t first = 0; first < task.tokens.size(); first += kernels::kMaxTokens) {
    const size_t count = std::min<size_t>(kernels::kMaxTokens, task.tokens.size() - first);
    h_.Resize(static_cast<uint32_t>(count), task.shape->ffn);
    for (uint32_t unit = 0; unit < kernels::GateUpUnits(*task.shape); ++unit) {
      kernels::RunGateUpUnit(kernels_, expert, task.tokens.subspan(first, count), unit, h_, 0);
    }
    std::array<kernels::ActivationRow, kernels::kMaxTokens> h;
    for (uint32_t i = 0; i < count; ++i) h[i] = h_.row(i);
    for (uint32_t unit = 0; unit < kernels::DownUnits(*task.shape); ++unit) {
      kernels::RunDownUnit(kernels_, expert, std::span(h).first(count), unit,
                           task.y.subspan(first, count));
    }
  }
}

std::chrono::nanoseconds EmulatedDevice::LinkTime(size_t bytes) const {
  const double seconds = static_cast<double>(bytes) / options_.copy_rate;
  return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

}  // namespace moetier
