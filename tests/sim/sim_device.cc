#include "tests/sim/sim_device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "kernels/expert_ffn.h"
#include "tiers/device/slot_granules.h"

namespace moetier {
namespace {

constexpr uint64_t kBase = 0x100000;  // an address of the device is none of the host
constexpr int kGarbage = 0xFF;
constexpr size_t kLine = 64;  // kernels want records to begin at one

Error Lost() { return {ErrorCode::kUnavailable, Reason::kIo, "the device is lost"}; }

}  // namespace

class SimDevice::SimArena final : public DeviceArena {
 public:
  SimArena(SimDevice& device, const ArenaPlan& plan)
      : device_(device), size_(DeviceMemory(plan, device.description_.granule)) {
    for (const ArenaRegion& region : plan.regions) {
      Class& each = classes_.emplace_back(region, device.description_.granule, bytes_);
      each.granules.Add(SlotIndex{0}, region.slots);
      bytes_ += region.slot_bytes.count() * each.places;
    }
  }
  ~SimArena() override { device_.taken_ -= size_; }

  [[nodiscard]] uint64_t bytes() const { return bytes_; }  // of all places
  [[nodiscard]] uint32_t Places(SizeClass size_class) const override {
    return classes_[Raw(size_class)].places;
  }
  [[nodiscard]] DeviceAddress Slot(SizeClass size_class, SlotIndex slot) const override {
    const Class& each = classes_[Raw(size_class)];
    MOE_CHECK(Raw(slot) < each.places, "slot {} of {}", Raw(slot), each.places);
    return DeviceAddress{kBase + each.offset + each.slot_bytes * Raw(slot)};
  }
  void GiveBack(SizeClass size_class, SlotIndex slot) override {
    Class& each = classes_[Raw(size_class)];
    std::ranges::fill(device_.Memory(Slot(size_class, slot), each.slot_bytes), std::byte{kGarbage});
    const Bytes freed = each.granules.Size(each.granules.Remove(slot));
    size_ -= freed;
    device_.taken_ -= freed;
  }
  Status Take(SizeClass size_class, SlotIndex first, uint32_t count) override {
    Class& each = classes_[Raw(size_class)];
    if (device_.lost_) return Lost();
    Bytes lacking;
    for (const SlotGranules::Run& run : each.granules.Lacking(first, count)) {
      lacking += each.granules.Size(run);
    }
    if (lacking > device_.free()) {
      return Error{ErrorCode::kExhausted, Reason::kNoRoom, "the device has no room"};
    }
    each.granules.Add(first, count);
    size_ += lacking;
    device_.taken_ += lacking;
    return Ok{};
  }
  [[nodiscard]] Bytes size() const override { return size_; }

 private:
  struct Class {
    Class(const ArenaRegion& region, Bytes granule, uint64_t from)
        : offset(from),
          slot_bytes(region.slot_bytes.count()),
          places(std::max(region.slots, region.records)),
          granules(region.slot_bytes, granule, places) {}
    uint64_t offset;
    uint64_t slot_bytes;
    uint32_t places;
    SlotGranules granules;
  };

  SimDevice& device_;
  uint64_t bytes_ = 0;
  Bytes size_;
  std::vector<Class> classes_;
};

SimDevice::SimDevice(DeviceDescription description, const kernels::ExpertKernels& kernels,
                     ExecutorCanary canary, SimTrace& trace)
    : description_(std::move(description)), kernels_(kernels), canary_(canary), trace_(trace) {}

SimDevice::~SimDevice() = default;

Result<std::unique_ptr<DeviceArena>> SimDevice::Allocate(const ArenaPlan& plan,
                                                         std::string_view what) {
  if (lost_) return Lost();
  const Bytes wanted = DeviceMemory(plan, description_.granule);
  if (wanted > free()) {
    return Error{ErrorCode::kExhausted, Reason::kNoRoom, fmt::format("{}: no room", what)};
  }
  MOE_CHECK(memory_.empty(), "a second arena on a device of one model");
  taken_ += wanted;
  auto arena = std::make_unique<SimArena>(*this, plan);
  memory_.resize(arena->bytes() + kLine, std::byte{kGarbage});
  return std::unique_ptr<DeviceArena>(std::move(arena));
}

std::span<std::byte> SimDevice::Memory(DeviceAddress address, size_t bytes) {
  MOE_CHECK(Raw(address) >= kBase && Raw(address) - kBase + bytes <= memory_.size() - kLine,
            "{:x} is no address of the device", Raw(address));
  const auto begin = reinterpret_cast<uintptr_t>(memory_.data());
  return std::span(memory_).subspan(AlignUp(begin, kLine) - begin + Raw(address) - kBase, bytes);
}

bool SimDevice::IsCopying(DeviceAddress address) const {
  return std::ranges::any_of(copies_, [=](const QueuedCopy& queued) {
    const auto* in = std::get_if<CopyIn>(&queued.copy);
    return (in != nullptr ? in->to : std::get<CopyOut>(queued.copy).from) == address;
  });
}

bool SimDevice::IsInUse(DeviceAddress address) const {
  const auto reads = [=](const DeviceTask& task) {
    const auto* const slot = std::get_if<DeviceAddress>(&task.record);
    return slot != nullptr && *slot == address;
  };
  return IsCopying(address) || std::ranges::any_of(runs_, [&](const QueuedRun& queued) {
           return std::ranges::any_of(queued.tasks, reads);
         });
}

void SimDevice::Copy(CopyId id, const DeviceCopy& copy) {
  if (const auto* out = std::get_if<CopyOut>(&copy)) {
    std::memset(out->to.data(), kGarbage, out->to.size());
    trace_.Say("device: copy {} out of {:x}", Raw(id), Raw(out->from));
  } else {
    trace_.Say("device: copy {} into {:x}", Raw(id), Raw(std::get<CopyIn>(copy).to));
  }
  copies_.push_back({.id = id, .copy = copy});
}

void SimDevice::CancelCopy(CopyId id) {
  for (QueuedCopy& queued : copies_) {
    if (queued.id == id) queued.cancelled = true;
  }
  trace_.Say("device: copy {} is cancelled", Raw(id));
}

void SimDevice::Run(RunId id, std::vector<DeviceTask> tasks) {
  MOE_CHECK(!tasks.empty(), "run {} of nothing", Raw(id));
  trace_.Say("device: run {} of {}", Raw(id), tasks.size());
  runs_.push_back({.id = id, .tasks = std::move(tasks)});
}

bool SimDevice::AdvanceCopies(Random& random) {
  WriteLateBytes();
  if (copies_.empty()) return false;
  const QueuedCopy queued = copies_.front();
  copies_.pop_front();
  ++copies_ended_;
  const DeviceOutcome outcome = End(queued, random);
  has_failed_ |= outcome == DeviceOutcome::kFailed;
  trace_.Say("device: copy {} ends as {}", Raw(queued.id), static_cast<int>(outcome));
  if (canary_ == ExecutorCanary::kCopyEndLost && random.Percent(10)) return true;
  listener_->OnCopy({.id = queued.id, .outcome = outcome});
  return true;
}

DeviceOutcome SimDevice::End(const QueuedCopy& queued, Random& random) {
  if (queued.cancelled && !random.Percent(faults_.late)) {
    if (const auto* in = std::get_if<CopyIn>(&queued.copy);
        in != nullptr && canary_ == ExecutorCanary::kCancelledCopyLands) {
      late_.push_back({in->to, {in->from.begin(), in->from.end()}, random.Below(4)});
    }
    if (!lost_) Spoil(queued.copy, random);
    return DeviceOutcome::kCancelled;
  }
  if (lost_ && canary_ != ExecutorCanary::kLossUnseen) return DeviceOutcome::kFailed;
  if (random.Percent(faults_.failed_copy)) {
    Spoil(queued.copy, random);
    return canary_ == ExecutorCanary::kFailedCopyTakenAsDone ? DeviceOutcome::kDone
                                                             : DeviceOutcome::kFailed;
  }
  Perform(queued, random);
  return DeviceOutcome::kDone;
}

// The destination holds anything.
void SimDevice::Spoil(const DeviceCopy& copy, Random& random) {
  if (const auto* in = std::get_if<CopyIn>(&copy)) {
    const std::span<std::byte> to = Memory(in->to, in->from.size());
    const size_t good = random.Below(to.size());
    std::memcpy(to.data(), in->from.data(), good);
    std::memset(to.data() + good, kGarbage, to.size() - good);
  } else {
    const CopyOut& out = std::get<CopyOut>(copy);
    std::memcpy(out.to.data(), Memory(out.from, out.to.size()).data(), random.Below(out.to.size()));
  }
}

void SimDevice::Perform(const QueuedCopy& queued, Random& random) {
  if (const auto* in = std::get_if<CopyIn>(&queued.copy)) return PerformIn(*in, random);
  const CopyOut& out = std::get<CopyOut>(queued.copy);
  if (canary_ == ExecutorCanary::kWriteBackAfterOverwrite && !copies_.empty()) {
    const auto* next = std::get_if<CopyIn>(&copies_.front().copy);
    if (next != nullptr && next->to == out.from) PerformIn(*next, random);
  }
  std::memcpy(out.to.data(), Memory(out.from, out.to.size()).data(), out.to.size());
}

void SimDevice::PerformIn(const CopyIn& in, Random& random) {
  DeviceAddress to = in.to;
  if (canary_ == ExecutorCanary::kCopyDoneBeforeBytes) {
    late_.push_back({to, {in.from.begin(), in.from.end()}, random.Below(4)});
    return;
  }
  if (canary_ == ExecutorCanary::kCopyIntoNeighbour && random.Percent(10)) {
    const DeviceAddress next{Raw(to) + AlignUp(in.from.size(), kRecordAlignment)};
    if (Raw(next) - kBase + in.from.size() <= memory_.size() - kLine) to = next;
  }
  std::memcpy(Memory(to, in.from.size()).data(), in.from.data(), in.from.size());
}

bool SimDevice::AdvanceRuns(Random& random) {
  WriteLateBytes();
  if (runs_.empty()) return false;
  const QueuedRun queued = std::move(runs_.front());
  runs_.pop_front();
  const DeviceOutcome outcome = End(queued, random);
  trace_.Say("device: run {} ends as {}", Raw(queued.id), static_cast<int>(outcome));
  listener_->OnRun({.id = queued.id,
                    .outcome = outcome,
                    .busy = std::chrono::microseconds(1 + random.Below(200))});
  return true;
}

DeviceOutcome SimDevice::End(const QueuedRun& queued, Random& random) {
  const bool fails =
      (lost_ && canary_ != ExecutorCanary::kLossUnseen) || random.Percent(faults_.failed_run);
  const bool forgets = canary_ == ExecutorCanary::kRunNotComputed && random.Percent(10);
  for (const DeviceTask& task : queued.tasks) {
    if (fails) {
      for (float* y : task.y) *y = std::numeric_limits<float>::quiet_NaN();
    } else if (!forgets) {
      Compute(task);
    }
  }
  return fails ? DeviceOutcome::kFailed : DeviceOutcome::kDone;
}

void SimDevice::Compute(const DeviceTask& task) {
  const auto* const* in_ram = std::get_if<const std::byte*>(&task.record);
  const std::byte* const record =
      in_ram != nullptr ? *in_ram
                        : Memory(std::get<DeviceAddress>(task.record), task.layout->bytes).data();
  const kernels::ExpertView expert{.shape = task.shape, .layout = task.layout, .record = record};
  std::vector<kernels::ActivationRow> tokens(task.tokens.begin(), task.tokens.end());
  if (canary_ == ExecutorCanary::kRunOfOtherRows) std::ranges::rotate(tokens, tokens.begin() + 1);
  for (size_t first = 0; first < tokens.size(); first += kernels::kMaxTokens) {
    const size_t count = std::min<size_t>(kernels::kMaxTokens, tokens.size() - first);
    h_.Resize(static_cast<uint32_t>(count), task.shape->ffn);
    for (uint32_t unit = 0; unit < kernels::GateUpUnits(*task.shape); ++unit) {
      kernels::RunGateUpUnit(kernels_, expert, std::span(tokens).subspan(first, count), unit, h_,
                             0);
    }
    std::array<kernels::ActivationRow, kernels::kMaxTokens> h;
    for (uint32_t i = 0; i < count; ++i) h[i] = h_.row(i);
    for (uint32_t unit = 0; unit < kernels::DownUnits(*task.shape); ++unit) {
      kernels::RunDownUnit(kernels_, expert, std::span(h).first(count), unit,
                           task.y.subspan(first, count));
    }
  }
}

void SimDevice::Lose() {
  if (std::exchange(lost_, true)) return;
  trace_.Say("device: lost");
  std::ranges::fill(memory_, std::byte{kGarbage});
}

void SimDevice::TellLoss() {
  if (std::exchange(told_, true)) return;
  if (canary_ == ExecutorCanary::kLossUnseen) return;
  trace_.Say("device: its loss is told");
  listener_->OnDeviceLost({ErrorCode::kUnavailable, Reason::kIo, "the device is lost"});
}

void SimDevice::WriteLateBytes() {
  for (auto it = late_.begin(); it != late_.end();) {
    if (it->after-- > 0) {
      ++it;
      continue;
    }
    std::ranges::copy(it->bytes, Memory(it->to, it->bytes.size()).begin());
    it = late_.erase(it);
  }
}

}  // namespace moetier
