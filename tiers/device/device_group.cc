#include "tiers/device/device_group.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "tiers/device/slot_homes.h"

namespace moetier {
namespace {

constexpr uint32_t kMemberShift = 56;
constexpr uint64_t kOwnBits = (uint64_t{1} << kMemberShift) - 1;

size_t MemberOf(DeviceAddress address) { return Raw(address) >> kMemberShift; }
DeviceAddress OwnOf(DeviceAddress address) { return DeviceAddress{Raw(address) & kOwnBits}; }

// What they do side by side, which is what a run over all of them sees.
DeviceDescription Describe(const std::vector<std::unique_ptr<Device>>& devices) {
  DeviceDescription all{.name = {}, .what = {}, .budget = {}};
  for (const auto& device : devices) {
    const DeviceDescription& is = device->description();
    all.name += (all.name.empty() ? "" : "+") + is.name;
    all.what += (all.what.empty() ? "" : "; ") + is.what;
    all.budget += is.budget;
    all.granule = std::max(all.granule, is.granule);
    all.memory_rate += is.memory_rate;
    all.link_rate += is.link_rate;
    all.copy_latency = std::max(all.copy_latency, is.copy_latency);
    all.hand_off = std::max(all.hand_off, is.hand_off);
  }
  return all;
}

// The worse of two ends of one piece of work.
DeviceOutcome Worse(DeviceOutcome one, DeviceOutcome other) {
  if (one == DeviceOutcome::kFailed || other == DeviceOutcome::kFailed) {
    return DeviceOutcome::kFailed;
  }
  return one == DeviceOutcome::kDone ? other : one;
}

}  // namespace

class DeviceGroup::Member final : public DeviceListener {
 public:
  Member(DeviceGroup& group, size_t number) : group_(group), number_(number) {}
  void OnCopy(const CopyDone& done) override { group_.OnCopy(done); }
  void OnRun(const RunDone& done) override { group_.OnRun(done); }
  void OnDeviceLost(const Error& why) override { group_.OnLost(number_, why); }

 private:
  DeviceGroup& group_;
  const size_t number_;
};

class DeviceGroup::GroupArena final : public DeviceArena {
 public:
  GroupArena(const DeviceGroup& group, std::vector<std::vector<SlotHomes::Home>> homes,
             const ArenaPlan& plan)
      : group_(group), homes_(std::move(homes)), plan_(plan) {}

  // By device, in their order.
  void Add(std::unique_ptr<DeviceArena> part) { parts_.push_back(std::move(part)); }

  [[nodiscard]] uint32_t Places(SizeClass size_class) const override {
    return static_cast<uint32_t>(homes_[Raw(size_class)].size());
  }
  [[nodiscard]] DeviceAddress Slot(SizeClass size_class, SlotIndex slot) const override {
    const SlotHomes::Home& home = HomeOf(size_class, slot);
    const uint64_t own = Raw(parts_[home.device]->Slot(size_class, home.slot));
    MOE_CHECK((own & ~kOwnBits) == 0, "the device's address {:#x} has a topmost byte", own);
    return DeviceAddress{own | uint64_t{home.device} << kMemberShift};
  }
  // The parts have no start in common: as if the slots stood side by side.
  [[nodiscard]] uint64_t Offset(SizeClass size_class, SlotIndex slot) const override {
    uint64_t offset = 0;
    for (size_t i = 0; i < Raw(size_class); ++i) {
      offset += (plan_.regions[i].slot_bytes * homes_[i].size()).count();
    }
    return offset + (plan_.regions[Raw(size_class)].slot_bytes * Raw(slot)).count();
  }
  [[nodiscard]] Result<ExportedSlot> Export(SizeClass size_class, SlotIndex slot,
                                            uint32_t most_granules) const override {
    RETURN_IF_ERROR(group_.Usable());
    const SlotHomes::Home& home = HomeOf(size_class, slot);
    return parts_[home.device]->Export(size_class, home.slot, most_granules);
  }
  void GiveBack(SizeClass size_class, SlotIndex slot) override {
    const SlotHomes::Home& home = HomeOf(size_class, slot);
    parts_[home.device]->GiveBack(size_class, home.slot);
  }
  Status Take(SizeClass size_class, SlotIndex first, uint32_t count) override;
  [[nodiscard]] Bytes size() const override {
    Bytes sum;
    for (const auto& part : parts_) sum += part->size();
    return sum;
  }

 private:
  [[nodiscard]] const SlotHomes::Home& HomeOf(SizeClass size_class, SlotIndex slot) const {
    MOE_CHECK(Raw(slot) < Places(size_class), "slot {} of {}", Raw(slot), Places(size_class));
    return homes_[Raw(size_class)][Raw(slot)];
  }

  const DeviceGroup& group_;
  const std::vector<std::vector<SlotHomes::Home>> homes_;  // by size class and slot
  const ArenaPlan plan_;
  std::vector<std::unique_ptr<DeviceArena>> parts_;  // by device
};

// Slots side by side here are so in each part, too. All parts take theirs, or none.
Status DeviceGroup::GroupArena::Take(SizeClass size_class, SlotIndex first, uint32_t count) {
  RETURN_IF_ERROR(group_.Usable());
  struct Range {
    SlotIndex first{};
    uint32_t count = 0;
  };
  std::vector<Range> ranges(parts_.size());
  for (uint32_t i = 0; i < count; ++i) {
    const SlotHomes::Home& home = HomeOf(size_class, SlotIndex{Raw(first) + i});
    Range& range = ranges[home.device];
    if (range.count++ == 0) range.first = home.slot;
  }
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Status taken = parts_[i]->Take(size_class, ranges[i].first, ranges[i].count);
    if (taken) continue;
    for (size_t k = 0; k < i; ++k) {
      for (uint32_t slot = 0; slot < ranges[k].count; ++slot) {
        parts_[k]->GiveBack(size_class, SlotIndex{Raw(ranges[k].first) + slot});
      }
    }
    return taken;
  }
  return Ok{};
}

DeviceGroup::DeviceGroup(std::vector<std::unique_ptr<Device>> devices)
    : devices_(std::move(devices)), description_(Describe(devices_)) {
  MOE_CHECK(devices_.size() >= 2 && devices_.size() <= kMost, "a group of {}", devices_.size());
  for (size_t i = 0; i < devices_.size(); ++i) {
    members_.push_back(std::make_unique<Member>(*this, i));
  }
}

DeviceGroup::~DeviceGroup() { Stop(); }

void DeviceGroup::Start(DeviceListener& listener) {
  listener_ = &listener;
  for (size_t i = 0; i < devices_.size(); ++i) devices_[i]->Start(*members_[i]);
}

void DeviceGroup::Stop() {
  for (const auto& device : devices_) device->Stop();
}

Bytes DeviceGroup::free() const {
  Bytes sum;
  for (const auto& device : devices_) sum += device->free();
  return sum;
}

std::vector<const Device*> DeviceGroup::cards() const {
  std::vector<const Device*> all;
  for (const auto& device : devices_) all.push_back(device.get());
  return all;
}

// Memory
// ------------------------------------------------------------------------------------------------

Status DeviceGroup::Admit(const kernels::ExpertShape& shape, const kernels::RecordLayout& layout) {
  for (const auto& device : devices_) {
    if (Status admitted = device->Admit(shape, layout); !admitted) {
      admitted.error().message =
          fmt::format("{}: {}", device->description().name, admitted.error().message);
      return admitted;
    }
  }
  return Ok{};
}

Status DeviceGroup::ShowHost(std::span<std::byte> memory) {
  if (!Usable()) return Ok{};  // those that are left run nothing either
  for (size_t i = 0; i < devices_.size(); ++i) {
    const Status shown = devices_[i]->ShowHost(memory);
    if (shown) continue;
    for (size_t k = 0; k < i; ++k) devices_[k]->HideHost(memory);
    return shown;
  }
  return Ok{};
}

void DeviceGroup::HideHost(std::span<std::byte> memory) {
  for (const auto& device : devices_) device->HideHost(memory);
}

Result<std::unique_ptr<DeviceArena>> DeviceGroup::Allocate(const ArenaPlan& plan,
                                                           std::string_view what) {
  RETURN_IF_ERROR(Usable());
  std::vector<DeviceRoom> rooms;
  for (const auto& device : devices_) {
    rooms.push_back({.free = device->free(), .granule = device->description().granule});
  }
  ASSIGN_OR_RETURN(SlotHomes shared, ShareSlots(plan, rooms, what));
  auto arena = std::make_unique<GroupArena>(*this, std::move(shared.homes), plan);
  for (size_t i = 0; i < devices_.size(); ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<DeviceArena> part,
                     devices_[i]->Allocate(shared.plans[i], what));
    arena->Add(std::move(part));
  }
  return std::unique_ptr<DeviceArena>(std::move(arena));
}

// Work
// ------------------------------------------------------------------------------------------------

void DeviceGroup::Copy(CopyId id, const DeviceCopy& copy) {
  DeviceCopy own = copy;
  size_t member = 0;
  if (auto* const in = std::get_if<CopyIn>(&own)) {
    member = MemberOf(in->to);
    in->to = OwnOf(in->to);
  } else {
    auto& out = std::get<CopyOut>(own);
    member = MemberOf(out.from);
    out.from = OwnOf(out.from);
  }
  {
    MutexLock lock(mu_);
    member = lost_member_.value_or(member);
    copies_[id] = member;
  }
  devices_[member]->Copy(id, own);
}

void DeviceGroup::CancelCopy(CopyId id) {
  std::optional<size_t> member;
  {
    MutexLock lock(mu_);
    if (const auto found = copies_.find(id); found != copies_.end()) member = found->second;
  }
  if (member) devices_[*member]->CancelCopy(id);
}

// Tasks over slots go where these are; those over RAM, one by one, to the link that has the least
// to carry for what it can.
DeviceGroup::Parts DeviceGroup::Divide(std::vector<DeviceTask> tasks) const {
  Parts parts(devices_.size());
  for (DeviceTask& task : tasks) {
    size_t member = 0;
    if (auto* const slot = std::get_if<DeviceAddress>(&task.record)) {
      member = MemberOf(*slot);
      *slot = OwnOf(*slot);
    } else {
      const auto time = [&](size_t i) {
        return static_cast<double>(parts[i].size() + 1) / devices_[i]->description().link_rate;
      };
      for (size_t i = 1; i < devices_.size(); ++i) {
        if (time(i) < time(member)) member = i;
      }
    }
    parts[member].push_back(std::move(task));
  }
  return parts;
}

void DeviceGroup::Run(RunId id, std::vector<DeviceTask> tasks) {
  Parts parts(devices_.size());
  {
    MutexLock lock(mu_);
    if (lost_member_) {
      parts[*lost_member_] = std::move(tasks);
    } else {
      parts = Divide(std::move(tasks));
    }
    PartedRun& run = runs_[id];
    run.done.id = id;
    run.parts = static_cast<size_t>(
        std::ranges::count_if(parts, [](const auto& part) { return !part.empty(); }));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].empty()) devices_[i]->Run(id, std::move(parts[i]));
  }
}

void DeviceGroup::OnCopy(const CopyDone& done) {
  CopyDone told = done;
  {
    MutexLock lock(mu_);
    copies_.erase(done.id);
    if (lost_) told.outcome = DeviceOutcome::kFailed;
  }
  listener_->OnCopy(told);
}

void DeviceGroup::OnRun(const RunDone& done) {
  RunDone told;
  {
    MutexLock lock(mu_);
    const auto run = runs_.find(done.id);
    MOE_CHECK(run != runs_.end(), "run {} ends, which is not under way", Raw(done.id));
    told = run->second.done;
    told.outcome = Worse(told.outcome, lost_ ? DeviceOutcome::kFailed : done.outcome);
    told.busy = std::max(told.busy, done.busy);
    run->second.done = told;
    if (--run->second.parts > 0) return;
    runs_.erase(run);
  }
  listener_->OnRun(told);
}

void DeviceGroup::OnLost(size_t member, const Error& why) {
  Error told = why;
  told.message += fmt::format("; with it all of {} are given up", description_.name);
  {
    MutexLock lock(mu_);
    if (lost_) return;
    lost_member_ = member;
    lost_ = told;
  }
  listener_->OnDeviceLost(told);
}

Status DeviceGroup::Usable() const {
  MutexLock lock(mu_);
  if (lost_) return *lost_;
  return Ok{};
}

}  // namespace moetier
