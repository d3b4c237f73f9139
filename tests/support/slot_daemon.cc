#include "tests/support/slot_daemon.h"

#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <utility>
#include <variant>

#include "kernels/cuda/emulated_gpu.h"
#include "tests/support/eventually.h"
#include "tiers/device/cuda_device.h"

namespace moetier::testing {
namespace {

using kernels::cuda::EmulatedGpu;
using kernels::cuda::EventHandle;
using kernels::cuda::HostWait;
using kernels::cuda::Sharing;

class ControlledGpu final : public EmulatedGpu {
 public:
  ControlledGpu(EmulatedGpu::Options options, std::shared_ptr<CardControl> control)
      : EmulatedGpu(std::move(options)), control_(std::move(control)) {}
  Result<ExportedMemory> Export(std::byte* begin, size_t bytes) override {
    control_->PassExport();
    return EmulatedGpu::Export(begin, bytes);
  }
  Status Wait(EventHandle event, HostWait wait) override {
    RETURN_IF_ERROR(EmulatedGpu::Wait(event, wait));
    if (!control_->fails()) return Ok{};
    return Error{ErrorCode::kUnavailable, Reason::kIo, "the card has failed"};
  }

 private:
  const std::shared_ptr<CardControl> control_;
};

Result<std::unique_ptr<Device>> OpenCard(const Clock& clock, Sharing sharing,
                                         const std::shared_ptr<CardControl>& control) {
  EmulatedGpu::Options options;
  options.info = {.ordinal = 0,
                  .uuid = std::string(SlotDaemon::kCard),
                  .name = "Emulated GPU",
                  .compute = 90,
                  .memory = 128_MiB};
  options.granule = (64_KiB).count();
  options.sharing = sharing;
  ASSIGN_OR_RETURN(
      std::unique_ptr<CudaDevice> device,
      CudaDevice::Create({.name = "gpu0", .budget = 32_MiB},
                         std::make_unique<ControlledGpu>(std::move(options), control), clock));
  return std::unique_ptr<Device>(std::move(device));
}

ExpertCore::Options CoreOptions(SlotDaemon::Kind kind,
                                const std::shared_ptr<CardControl>& control) {
  ExpertCore::Options options;
  options.arena.memory = ArenaMemory::kShared;
  if (kind == SlotDaemon::Kind::kEmulatedDevice) {
    options.emulated = {{.name = "emulated0", .budget = 32_MiB}};
    return options;
  }
  const Sharing sharing =
      kind == SlotDaemon::Kind::kExportable ? Sharing::kExportable : Sharing::kNone;
  options.gpu.open.emplace_back(
      [sharing, control](const Clock& clock) { return OpenCard(clock, sharing, control); });
  return options;
}

}  // namespace

void CardControl::AwaitExports(uint32_t count) {
  MutexLock lock(mu_);
  while (exports_ < count) changed_.wait(mu_);
}

void CardControl::Fail() {
  MutexLock lock(mu_);
  fails_ = true;
}

bool CardControl::fails() const {
  MutexLock lock(mu_);
  return fails_;
}

void CardControl::PassExport() {
  MutexLock lock(mu_);
  ++exports_;
  changed_.notify_all();
  while (held_) changed_.wait(mu_);
}

void CardControl::SetHeld(bool held) {
  MutexLock lock(mu_);
  held_ = held;
  changed_.notify_all();
}

SlotDaemon::SlotDaemon(std::vector<uint32_t> trusted, Kind kind)
    : card(std::make_shared<CardControl>()),
      fixture(CoreOptions(kind, card), std::move(trusted)),
      client(std::make_unique<ResidencyClient>(core().residency(), MapFixture::kSession,
                                               core().FindModel("demo")->id, 8_MiB)) {}

SlotDaemon::~SlotDaemon() {
  card->LetExports();
  core().SessionEnded(SessionId{MapFixture::kSession});
}

ExpertKey SlotDaemon::Key(uint16_t expert) const {
  return {core().FindModel("demo")->id, LayerIndex{0}, ExpertIndex{expert}};
}

SlotLease SlotDaemon::Lease(uint16_t expert, PoolId pool) {
  (void)client->Transfer({Key(expert)}, pool).get();
  SlotLease lease;
  REQUIRE(Eventually([&] {
    const auto outcomes = client->Acquire({Key(expert)}, pool).get();
    if (!outcomes || !std::holds_alternative<SlotLease>(outcomes->front())) return false;
    lease = std::get<SlotLease>(outcomes->front());
    return true;
  }));
  return lease;
}

void SlotDaemon::Release(const SlotLease& lease) {
  REQUIRE(client->Release({lease.lease}).get().value() == 1);
}

std::vector<std::byte> SlotDaemon::RecordInRam(uint16_t expert) {
  const SlotLease lease = Lease(expert, kRamPool);
  const moetier_map map = fixture.Map();
  moetier_arena arena{};
  REQUIRE(moetier_map_arena(&map, 10'000'000, &arena, nullptr) == MOETIER_OK);
  const auto* const begin = static_cast<const std::byte*>(arena.memory) + lease.offset;
  std::vector<std::byte> record(begin, begin + lease.bytes);
  moetier_unmap_arena(&arena);
  Release(lease);
  return record;
}

uint32_t SlotDaemon::leased() const {
  uint32_t leased = 0;
  const StatusSnapshot status = core().Snapshot();
  for (const SizeClassSnapshot& slots : status.pools.at(1).classes) leased += slots.leased;
  return leased;
}

OpenedSlot::OpenedSlot(const SlotDaemon& daemon, LeaseId lease,
                       const std::function<void(moetier_map&)>& change) {
  moetier_map map = daemon.fixture.Map();
  if (change) change(map);
  status = moetier_open_slot(&map, Raw(lease), 60'000'000, &slot, &error);
}

OpenedSlot::~OpenedSlot() {
  CHECK((slot.granules > 0) == (status == MOETIER_OK));
  moetier_close_slot(&slot);
}

std::vector<std::byte> OpenedSlot::Record() const {
  std::vector<std::byte> all;
  for (uint32_t i = 0; i < slot.granules; ++i) {
    void* const granule = mmap(nullptr, slot.granule, PROT_READ, MAP_SHARED, slot.files[i], 0);
    REQUIRE(granule != MAP_FAILED);
    const auto* const begin = static_cast<const std::byte*>(granule);
    all.insert(all.end(), begin, begin + slot.granule);
    munmap(granule, slot.granule);
  }
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(slot.offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(slot.bytes)};
}

}  // namespace moetier::testing
