#include "tiers/device/emulated_device.h"

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
  ~HostArena() override { device_.budget_.GiveBack(size()); }

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
    device_.budget_.GiveBack(freed);
  }
  Status Take(SizeClass size_class, SlotIndex first, uint32_t count) override {
    SlotGranules& granules = granules_[Raw(size_class)];
    Bytes lacking;
    for (const SlotGranules::Run& run : granules.Lacking(first, count)) {
      lacking += granules.Size(run);
    }
    RETURN_IF_ERROR(device_.budget_.Take(lacking, what_));
    if (const Status taken = TakeMemory(size_class, first, count); !taken) {
      device_.budget_.GiveBack(lacking);
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
      description_{.name = options_.name,
                   .what = "emulated",
                   .budget = options_.budget,
                   .granule = options_.granule,
                   .memory_rate = kMemoryRate,
                   .link_rate = options_.copy_rate,
                   .copy_latency = options_.copy_latency,
                   .hand_off = kHandOff},
      budget_(options_.name, options_.budget, queues_),
      queues_({.device = options_.name, .number = options_.number}, clock, *this) {}

EmulatedDevice::~EmulatedDevice() { Stop(); }

Result<std::unique_ptr<DeviceArena>> EmulatedDevice::Allocate(const ArenaPlan& plan,
                                                              std::string_view what) {
  const Bytes wanted = DeviceMemory(plan, options_.granule);
  RETURN_IF_ERROR(budget_.Take(wanted, what));
  ArenaOptions memory = options_.memory;
  memory.what = what;
  if (IsHugetlb(memory.pages)) memory.pages = PageSize::kTransparent;  // that pool takes none back
  Result<std::unique_ptr<Arena>> arena = Arena::Create(plan, memory);
  if (!arena.has_value()) {
    budget_.GiveBack(wanted);
    return std::move(arena).error();
  }
  return std::unique_ptr<DeviceArena>(std::make_unique<HostArena>(*this, *std::move(arena), what));
}

// The CPU's kernels take every expert, and all memory is theirs.
Status EmulatedDevice::Admit(const kernels::ExpertShape& /*shape*/,
                             const kernels::RecordLayout& /*layout*/) {
  return Ok{};
}
Status EmulatedDevice::ShowHost(std::span<std::byte> /*memory*/) { return Ok{}; }
void EmulatedDevice::HideHost(std::span<std::byte> /*memory*/) {}

void EmulatedDevice::FailCopies(uint32_t count) {
  MutexLock lock(mu_);
  failing_copies_ = count;
}

Status EmulatedDevice::BeginWork() {
  MutexLock lock(mu_);
  if (++work_begun_ != options_.lost_after) return Ok{};
  return Error{
      ErrorCode::kUnavailable, Reason::kIo,
      fmt::format("after {} copies and runs, as devices[].lost_after says", options_.lost_after)};
}

bool EmulatedDevice::FailsNow() {
  MutexLock lock(mu_);
  if (failing_copies_ == 0) return false;
  --failing_copies_;
  return true;
}

Status EmulatedDevice::BeginCopy(const DeviceCopy& copy, uint32_t /*place*/) {
  copy_ = copy;
  return BeginWork();
}

Result<DeviceOutcome> EmulatedDevice::EndCopy(uint32_t /*place*/) {
  if (FailsNow()) return DeviceOutcome::kFailed;
  const TimePoint begin = clock_.Now();
  Perform(copy_);
  options_.wait_until(begin + options_.copy_latency + LinkTime(CopyBytes(copy_)));
  return DeviceOutcome::kDone;
}

Status EmulatedDevice::Compute(RecordPlace place, const std::vector<DeviceTask>& tasks) {
  RETURN_IF_ERROR(BeginWork());
  const TimePoint begin = clock_.Now();
  size_t over_link = 0;
  for (const DeviceTask& task : tasks) {
    if (place == RecordPlace::kRam) over_link += task.layout->bytes;
    RunTask(task, h_[static_cast<size_t>(place)]);
  }
  if (over_link > 0) options_.wait_until(begin + LinkTime(over_link));
  return Ok{};
}

void EmulatedDevice::RunTask(const DeviceTask& task, kernels::ActivationRows& h_rows) {
  const auto* const* in_ram = std::get_if<const std::byte*>(&task.record);
  const std::byte* const record =
      in_ram != nullptr ? *in_ram
                        : PointerOf<const std::byte*>(std::get<DeviceAddress>(task.record));
  const kernels::ExpertView expert{.shape = task.shape, .layout = task.layout, .record = record};
  for (size_t first = 0; first < task.tokens.size(); first += kernels::kMaxTokens) {
    const size_t count = std::min<size_t>(kernels::kMaxTokens, task.tokens.size() - first);
    h_rows.Resize(static_cast<uint32_t>(count), task.shape->ffn);
    for (uint32_t unit = 0; unit < kernels::GateUpUnits(*task.shape); ++unit) {
      kernels::RunGateUpUnit(kernels_, expert, task.tokens.subspan(first, count), unit, h_rows, 0);
    }
    std::array<kernels::ActivationRow, kernels::kMaxTokens> h;
    for (uint32_t i = 0; i < count; ++i) h[i] = h_rows.row(i);
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
