#include "tiers/device/device_group.h"

#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "tests/unit/device/device_probe.h"
#include "tiers/device/emulated_device.h"

namespace moetier {
namespace {

using testing::DeviceRecord;
using testing::DeviceRows;
using testing::Pattern;
using testing::SyntheticModel;

// A device that ends its work when it is told to.
class HeldDevice final : public Device {
 public:
  explicit HeldDevice(std::string name) {
    description_.name = std::move(name);
    description_.budget = 1_MiB;
    description_.link_rate = 1e9;
  }
  void Start(DeviceListener& listener) override { listener_ = &listener; }
  void Stop() override {}
  [[nodiscard]] const DeviceDescription& description() const override { return description_; }
  [[nodiscard]] Bytes free() const override { return description_.budget; }
  Status Admit(const kernels::ExpertShape& /*shape*/,
               const kernels::RecordLayout& /*layout*/) override {
    return Ok{};
  }
  Status ShowHost(std::span<std::byte> memory) override {
    if (!shows) return Error{ErrorCode::kUnavailable, Reason::kIo, "not this one"};
    ++shown[memory.data()];
    return Ok{};
  }
  void HideHost(std::span<std::byte> memory) override { --shown[memory.data()]; }
  Result<std::unique_ptr<DeviceArena>> Allocate(const ArenaPlan& /*plan*/,
                                                std::string_view /*what*/) override {
    return Error{ErrorCode::kExhausted, Reason::kNoRoom, "no slots here"};
  }
  void Copy(CopyId id, const DeviceCopy& copy) override { copies[id] = copy; }
  void CancelCopy(CopyId id) override { cancelled.push_back(id); }
  void Run(RunId id, std::vector<DeviceTask> tasks) override { runs[id] = std::move(tasks); }

  void EndCopy(CopyId id, DeviceOutcome outcome) {
    copies.erase(id);
    listener_->OnCopy({id, outcome});
  }
  void EndRun(RunId id, DeviceOutcome outcome, std::chrono::nanoseconds busy) {
    runs.erase(id);
    listener_->OnRun({id, outcome, busy});
  }
  void Lose() {
    listener_->OnDeviceLost({ErrorCode::kUnavailable, Reason::kIo, description_.name + " is gone"});
  }

  bool shows = true;
  std::map<std::byte*, int> shown;
  std::map<CopyId, DeviceCopy> copies;
  std::map<RunId, std::vector<DeviceTask>> runs;
  std::vector<CopyId> cancelled;

 private:
  DeviceDescription description_;
  DeviceListener* listener_ = nullptr;
};

struct HeldGroup {
  HeldGroup() { group.Start(record); }
  std::vector<std::unique_ptr<Device>> Devices() {
    std::vector<std::unique_ptr<Device>> devices;
    for (HeldDevice*& each : held) {
      auto device = std::make_unique<HeldDevice>(fmt::format("card{}", devices.size()));
      each = device.get();
      devices.push_back(std::move(device));
    }
    return devices;
  }
  static DeviceAddress At(uint64_t member, uint64_t own) {
    return DeviceAddress{member << 56 | own};
  }
  static DeviceTask Task(std::variant<DeviceAddress, const std::byte*> record) {
    DeviceTask task;
    task.record = record;
    return task;
  }
  static DeviceTask Slot(uint64_t member, uint64_t own) { return Task(At(member, own)); }

  DeviceRecord record;
  std::vector<HeldDevice*> held = std::vector<HeldDevice*>(3);
  DeviceGroup group{Devices()};
};

constexpr auto kShort = std::chrono::microseconds(3);
constexpr auto kLong = std::chrono::microseconds(8);

// Three emulated devices with the memory of the given slots each, and room for no more.
class Cards {
 public:
  explicit Cards(std::vector<uint32_t> slots, uint64_t last_lost_after = 0)
      : group_(Devices(slots, last_lost_after)) {
    const SizeClassGeometry& geometry = model.geometry().size_classes.front();
    plan.regions.push_back({.slot_bytes = geometry.slot_bytes, .slots = 0, .records = 16});
    for (const uint32_t each : slots) plan.regions.front().slots += each;
    plan.total = geometry.slot_bytes * plan.regions.front().slots;
    arena = group_.Allocate(plan, "vram").value();
    group_.Start(record);
  }
  ~Cards() { group_.Stop(); }

  std::vector<std::unique_ptr<Device>> Devices(const std::vector<uint32_t>& slots,
                                               uint64_t last_lost_after) {
    const Bytes slot = model.geometry().size_classes.front().slot_bytes;
    std::vector<std::unique_ptr<Device>> devices;
    for (const uint32_t each : slots) {
      EmulatedDevice::Options options{.name = fmt::format("card{}", devices.size()),
                                      .budget = slot * each};
      options.wait_until = [](TimePoint) {};
      if (devices.size() + 1 == slots.size()) options.lost_after = last_lost_after;
      devices.push_back(std::make_unique<EmulatedDevice>(options, clock, kernels));
    }
    return devices;
  }
  [[nodiscard]] DeviceAddress Slot(uint32_t slot) const {
    return arena->Slot(SizeClass{0}, SlotIndex{slot});
  }
  DeviceGroup& group() { return group_; }

  SteadyClock clock;
  SyntheticModel model{{.experts = 4, .hidden = 64, .ffn = 64}};
  kernels::ExpertKernels kernels =
      kernels::ExpertKernels::Create(kernels::InstructionSet::kScalar).value();
  DeviceRecord record;
  ArenaPlan plan;

 private:
  DeviceGroup group_;

 public:
  std::unique_ptr<DeviceArena> arena;
};

}  // namespace

TEST_CASE("DeviceGroup: a run is computed by the devices of its slots and ends once, with the last",
          "[device]") {
  HeldGroup cards;
  cards.group.Run(RunId{1}, {cards.Slot(2, 7), cards.Slot(0, 5), cards.Slot(2, 9)});
  CHECK(cards.held[1]->runs.empty());
  REQUIRE(cards.held[0]->runs[RunId{1}].size() == 1);
  const std::vector<DeviceTask> two = cards.held[2]->runs[RunId{1}];
  REQUIRE(two.size() == 2);
  CHECK(std::get<DeviceAddress>(two[0].record) == DeviceAddress{7});
  CHECK(std::get<DeviceAddress>(two[1].record) == DeviceAddress{9});
  cards.held[2]->EndRun(RunId{1}, DeviceOutcome::kDone, kLong);
  cards.group.Run(RunId{2}, {cards.Slot(1, 5)});
  cards.held[1]->EndRun(RunId{2}, DeviceOutcome::kCancelled, kShort);
  REQUIRE(cards.record.Runs(1).size() == 1);
  CHECK(cards.record.Runs(1)[0].id == RunId{2});
  CHECK(cards.record.Runs(1)[0].outcome == DeviceOutcome::kCancelled);
  cards.held[0]->EndRun(RunId{1}, DeviceOutcome::kDone, kShort);
  const std::vector<RunDone> done = cards.record.Runs(2);
  REQUIRE(done.size() == 2);
  CHECK(done[1].id == RunId{1});
  CHECK(done[1].outcome == DeviceOutcome::kDone);
  CHECK(done[1].busy == kLong);
}

TEST_CASE("DeviceGroup: one part that fails makes the run fail", "[device]") {
  HeldGroup cards;
  cards.group.Run(RunId{1}, {cards.Slot(0, 1), cards.Slot(1, 1)});
  cards.held[0]->EndRun(RunId{1}, DeviceOutcome::kFailed, kShort);
  cards.held[1]->EndRun(RunId{1}, DeviceOutcome::kDone, kShort);
  REQUIRE(cards.record.Runs(1).size() == 1);
  CHECK(cards.record.Runs(1)[0].outcome == DeviceOutcome::kFailed);
}

TEST_CASE("DeviceGroup: what lies in RAM is read over all links", "[device]") {
  HeldGroup cards;
  const std::byte record{};
  cards.group.Run(RunId{1}, std::vector<DeviceTask>(7, HeldGroup::Task(&record)));
  CHECK(cards.held[0]->runs[RunId{1}].size() == 3);
  CHECK(cards.held[1]->runs[RunId{1}].size() == 2);
  CHECK(cards.held[2]->runs[RunId{1}].size() == 2);
}

TEST_CASE("DeviceGroup: a copy and its cancelling go to the device of the slot", "[device]") {
  HeldGroup cards;
  std::vector<std::byte> bytes(8);
  cards.group.Copy(CopyId{4}, CopyIn{.from = bytes, .to = cards.At(1, 32)});
  cards.group.Copy(CopyId{5}, CopyOut{.from = cards.At(2, 64), .to = bytes});
  CHECK(std::get<CopyIn>(cards.held[1]->copies.at(CopyId{4})).to == DeviceAddress{32});
  CHECK(std::get<CopyOut>(cards.held[2]->copies.at(CopyId{5})).from == DeviceAddress{64});
  cards.group.CancelCopy(CopyId{5});
  cards.held[1]->EndCopy(CopyId{4}, DeviceOutcome::kDone);
  cards.group.CancelCopy(CopyId{4});  // too late
  CHECK(cards.held[2]->cancelled == std::vector<CopyId>{CopyId{5}});
  CHECK(cards.held[1]->cancelled.empty());
}

TEST_CASE("DeviceGroup: with one device all are lost, and what is unfinished fails", "[device]") {
  HeldGroup cards;
  std::vector<std::byte> bytes(8);
  cards.group.Copy(CopyId{1}, CopyIn{.from = bytes, .to = cards.At(0, 32)});
  cards.group.Run(RunId{1}, {cards.Slot(0, 1)});
  cards.held[1]->Lose();
  cards.held[2]->Lose();
  const std::vector<Error> losses = cards.record.losses();
  REQUIRE(losses.size() == 1);
  CHECK_THAT(losses[0].message, Catch::StartsWith("card1 is gone; with it all of card0+card1"));
  cards.held[0]->EndCopy(CopyId{1}, DeviceOutcome::kDone);
  cards.held[0]->EndRun(RunId{1}, DeviceOutcome::kDone, kShort);
  CHECK(cards.record.Copies(1)[0].outcome == DeviceOutcome::kFailed);
  CHECK(cards.record.Runs(1)[0].outcome == DeviceOutcome::kFailed);
  // The lost device ends what comes later.
  cards.group.Copy(CopyId{2}, CopyIn{.from = bytes, .to = cards.At(0, 32)});
  cards.group.Run(RunId{2}, {cards.Slot(0, 1), cards.Slot(2, 1)});
  CHECK(cards.held[1]->copies.contains(CopyId{2}));
  CHECK(cards.held[1]->runs[RunId{2}].size() == 2);
  CHECK(cards.group.Allocate({}, "vram").error().code == ErrorCode::kUnavailable);
}

TEST_CASE("DeviceGroup: memory that one device cannot read is shown to none", "[device]") {
  HeldGroup cards;
  std::vector<std::byte> memory(8);
  cards.held[2]->shows = false;
  CHECK(!cards.group.ShowHost(memory));
  for (const HeldDevice* each : cards.held) {
    for (const auto& [at, times] : each->shown) CHECK(times == 0);
  }
}

TEST_CASE("DeviceGroup: once they are lost nothing more of the host is shown to those left",
          "[device]") {
  HeldGroup cards;
  std::vector<std::byte> memory(16);
  const std::span<std::byte> before = std::span(memory).first(8);
  const std::span<std::byte> after = std::span(memory).last(8);
  REQUIRE(cards.group.ShowHost(before));
  cards.held[1]->Lose();
  CHECK(cards.group.ShowHost(after));
  for (const HeldDevice* each : cards.held) CHECK(each->shown.size() == 1);
  cards.group.HideHost(before);
  for (const HeldDevice* each : cards.held) CHECK(each->shown.at(before.data()) == 0);
}

TEST_CASE("DeviceGroup: the bits are the reference's, whichever device has the slot", "[device]") {
  Cards cards({3, 1, 2});
  std::vector<DeviceRows> rows;
  std::vector<DeviceTask> tasks;
  rows.reserve(4);
  for (uint16_t expert = 0; expert < 4; ++expert) {
    const Extent extent = cards.model.Locate(LayerIndex{2}, ExpertIndex{expert});
    const uint32_t slot = expert + 2u;
    cards.group().Copy(CopyId{expert},
                       CopyIn{.from = cards.model.file().subspan(extent.offset, extent.bytes),
                              .to = cards.Slot(slot)});
    tasks.push_back(rows.emplace_back(cards.model, LayerIndex{2}, 3).Task(cards.Slot(slot)));
  }
  REQUIRE(cards.record.Copies(4).size() == 4);
  cards.group().Run(RunId{1}, tasks);
  REQUIRE(cards.record.Runs(1).size() == 1);
  for (uint16_t expert = 0; expert < 4; ++expert) {
    CHECK(rows[expert].Outputs() == rows[expert].Expected(cards.model, expert));
  }
}

TEST_CASE("DeviceGroup: each device has its own budget's slots, and takes no more", "[device]") {
  Cards cards({3, 1, 2});
  CHECK(cards.group().free() == Bytes());
  CHECK(cards.arena->size() == cards.plan.total);
  CHECK(cards.arena->Places(SizeClass{0}) == 16);
  const Status more = cards.arena->Take(SizeClass{0}, SlotIndex{6}, 1);
  REQUIRE(!more);
  CHECK(more.error().reason == Reason::kNoRoom);

  const std::vector<std::byte> kept = Pattern(4096, 3);
  cards.group().Copy(CopyId{1}, CopyIn{.from = kept, .to = cards.Slot(0)});
  cards.record.Copies(1);
  for (uint32_t slot = 2; slot < 6; ++slot) cards.arena->GiveBack(SizeClass{0}, SlotIndex{slot});
  CHECK(cards.arena->size() == cards.plan.regions[0].slot_bytes * 2);
  // All or none: there is memory for those, and not for more than those.
  CHECK(!cards.arena->Take(SizeClass{0}, SlotIndex{2}, 14));
  CHECK(cards.arena->size() == cards.plan.regions[0].slot_bytes * 2);
  CHECK(cards.arena->Take(SizeClass{0}, SlotIndex{2}, 4));
  std::vector<std::byte> out(4096);
  cards.group().Copy(CopyId{2}, CopyOut{.from = cards.Slot(0), .to = out});
  cards.record.Copies(2);
  CHECK(out == kept);
  cards.arena.reset();
  CHECK(cards.group().free() == cards.group().description().budget);
}

TEST_CASE("DeviceGroup: a slot's memory is its own device's to give away", "[device]") {
  Cards cards({3, 1, 2});
  const Result<ExportedSlot> slot = cards.arena->Export(SizeClass{0}, SlotIndex{4}, 64);
  REQUIRE(!slot);
  CHECK(slot.error().reason == Reason::kNotYet);
}

TEST_CASE("DeviceGroup: offsets tell slots apart", "[device]") {
  Cards cards({3, 1, 2});
  const uint64_t slot_bytes = cards.plan.regions[0].slot_bytes.count();
  for (uint32_t slot = 0; slot < 16; ++slot) {
    CHECK(cards.arena->Offset(SizeClass{0}, SlotIndex{slot}) == slot * slot_bytes);
  }
}

TEST_CASE("DeviceGroup: a device that fails under load ends everything once", "[device]") {
  Cards cards({1, 1, 1}, 3);
  std::vector<std::byte> bytes(4096);
  constexpr uint64_t kCopies = 60;
  for (uint64_t id = 0; id < kCopies; ++id) {
    const auto slot = static_cast<uint32_t>(id % 3);
    cards.group().Copy(CopyId{id}, CopyIn{.from = bytes, .to = cards.Slot(slot)});
  }
  const std::vector<CopyDone> done = cards.record.Copies(kCopies);
  REQUIRE(done.size() == kCopies);
  std::map<CopyId, int> ends;
  for (const CopyDone& each : done) ++ends[each.id];
  CHECK(ends.size() == kCopies);
  CHECK(cards.record.losses().size() == 1);
  CHECK(!cards.arena->Take(SizeClass{0}, SlotIndex{3}, 1));
}

}  // namespace moetier
