#include "tests/sim/sim_gpu.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace moetier {

using kernels::cuda::EmulatedGpu;
using kernels::cuda::EventHandle;
using kernels::cuda::HostWait;
using kernels::cuda::StreamHandle;

namespace {

constexpr uint32_t kCanaryStride = 3;  // a canary spoils every third of its chances

bool IsOfMemory(CardCall call) {
  return call == CardCall::kAllocate || call == CardCall::kMap || call == CardCall::kShow;
}

}  // namespace

bool SimCard::has_failed() const {
  MutexLock lock(mu_);
  return failed_;
}

std::optional<std::string> SimCard::left() const {
  MutexLock lock(mu_);
  return left_;
}

SimGpu::SimGpu(SimCard& card)
    : EmulatedGpu(card.options), card_(card), spoilt_(size_t{4} << 10, std::byte{0x55}) {
  canary_ = EmulatedGpu::NewStream().value();
}

SimGpu::~SimGpu() {
  CatchUp();
  MutexLock lock(mu_);
  std::string left;
  const auto note = [&](size_t count, const char* what) {
    if (count > 0) left += fmt::format("{}{} {}", left.empty() ? "" : ", ", count, what);
  };
  note(mapped_.size(), "granules mapped");
  note(reserved_.size(), "ranges of addresses");
  note(blocks_.size(), "blocks");
  note(host_blocks_.size(), "blocks of the host");
  note(shown_.size(), "pieces of the host shown");
  for (std::byte* const granule_of : mapped_) EmulatedGpu::Unmap(granule_of, granule());
  for (const auto& [begin, bytes] : reserved_) EmulatedGpu::Unreserve(begin, bytes);
  for (std::byte* const block : blocks_) EmulatedGpu::Free(block);
  for (std::byte* const block : host_blocks_) EmulatedGpu::FreeHost(block);
  for (const auto& [begin, bytes] : shown_) EmulatedGpu::HideHost({begin, bytes});
  MutexLock card_lock(card_.mu_);
  if (!left.empty()) card_.left_ = left;
}

Status SimGpu::Begin(CardCall call) {
  MutexLock lock(mu_);
  const bool fails =
      ++calls_[static_cast<size_t>(call)] == card_.fault.nth && call == card_.fault.call;
  if (!dead_ && !fails) return Ok{};
  if (fails) {
    MutexLock card_lock(card_.mu_);
    card_.failed_ = true;
  }
  if (!dead_ && IsOfMemory(call)) {
    return Error{ErrorCode::kExhausted, Reason::kMemoryLimit, "the card's driver has no memory"};
  }
  if (fails && card_.fault.hangs) {
    EmulatedGpu::Hang();
    return Ok{};
  }
  dead_ = true;
  return Error{ErrorCode::kUnavailable, Reason::kIo, "the card has fallen off the bus"};
}

// Memory
// ------------------------------------------------------------------------------------------------

Result<std::byte*> SimGpu::Reserve(size_t bytes) {
  ASSIGN_OR_RETURN(std::byte* const begin, EmulatedGpu::Reserve(bytes));
  MutexLock lock(mu_);
  reserved_[begin] = bytes;
  return begin;
}

void SimGpu::Unreserve(std::byte* begin, size_t bytes) {
  MutexLock lock(mu_);
  if (card_.canary == GpuCanary::kAddressesKept) return;
  // With memory that a canary keeps go its addresses.
  const auto mapped = mapped_.lower_bound(begin);
  if (mapped != mapped_.end() && *mapped < begin + bytes) return;
  reserved_.erase(begin);
  EmulatedGpu::Unreserve(begin, bytes);
}

Status SimGpu::Map(std::byte* begin, size_t bytes) {
  RETURN_IF_ERROR(Begin(CardCall::kMap));
  MutexLock lock(mu_);
  const bool kept = bytes == granule() && mapped_.contains(begin);  // by a canary
  if (!kept) RETURN_IF_ERROR(EmulatedGpu::Map(begin, bytes));
  for (size_t at = 0; at < bytes; at += granule()) mapped_.insert(begin + at);
  return Ok{};
}

void SimGpu::Unmap(std::byte* begin, size_t bytes) {
  CatchUp();
  MutexLock lock(mu_);
  last_in_.reset();
  if (card_.canary == GpuCanary::kMemoryKept && bytes == granule()) return;
  for (size_t at = 0; at < bytes; at += granule()) mapped_.erase(begin + at);
  EmulatedGpu::Unmap(begin, bytes);
}

Result<std::byte*> SimGpu::Allocate(size_t bytes) {
  RETURN_IF_ERROR(Begin(CardCall::kAllocate));
  ASSIGN_OR_RETURN(std::byte* const block, EmulatedGpu::Allocate(bytes));
  MutexLock lock(mu_);
  blocks_.insert(block);
  return block;
}

Result<std::byte*> SimGpu::AllocateHost(size_t bytes) {
  RETURN_IF_ERROR(Begin(CardCall::kAllocate));
  ASSIGN_OR_RETURN(std::byte* const block, EmulatedGpu::AllocateHost(bytes));
  MutexLock lock(mu_);
  host_blocks_.insert(block);
  return block;
}

void SimGpu::Free(std::byte* block) {
  CatchUp();
  MutexLock lock(mu_);
  blocks_.erase(block);
  EmulatedGpu::Free(block);
}

void SimGpu::FreeHost(std::byte* block) {
  CatchUp();
  MutexLock lock(mu_);
  host_blocks_.erase(block);
  EmulatedGpu::FreeHost(block);
}

Status SimGpu::ShowHost(std::span<std::byte> memory) {
  RETURN_IF_ERROR(Begin(CardCall::kShow));
  MutexLock lock(mu_);
  if (card_.canary == GpuCanary::kHostKeptShown && shown_.contains(memory.data())) return Ok{};
  RETURN_IF_ERROR(EmulatedGpu::ShowHost(memory));
  shown_[memory.data()] = memory.size();
  return Ok{};
}

void SimGpu::HideHost(std::span<std::byte> memory) {
  CatchUp();
  MutexLock lock(mu_);
  if (card_.canary == GpuCanary::kHostKeptShown) return;
  shown_.erase(memory.data());
  EmulatedGpu::HideHost(memory);
}

Result<const std::byte*> SimGpu::AddressOf(const std::byte* host) {
  RETURN_IF_ERROR(Begin(CardCall::kAddress));
  return EmulatedGpu::AddressOf(host);
}

// Work
// ------------------------------------------------------------------------------------------------

SimGpu::Way SimGpu::WayOf(const StreamCopy& copy) const {
  MutexLock lock(mu_);
  const auto in_slots = [&](const void* at) {
    const auto* const byte = static_cast<const std::byte*>(at);
    for (const auto& [begin, bytes] : reserved_) {
      if (byte >= begin && byte < begin + bytes) return true;
    }
    return false;
  };
  if (in_slots(copy.to)) return Way::kIntoSlot;
  return in_slots(copy.from) ? Way::kOutOfSlot : Way::kOther;
}

Status SimGpu::CopyNow(const StreamCopy& copy) {
  return EmulatedGpu::Copy(copy.to, copy.from, copy.bytes, copy.stream);
}

Status SimGpu::Copy(void* to, const void* from, size_t bytes, StreamHandle stream) {
  RETURN_IF_ERROR(Begin(CardCall::kCopy));
  const StreamCopy copy{to, from, bytes, stream};
  if (card_.canary == GpuCanary::kNone) return CopyNow(copy);
  const Way way = WayOf(copy);
  std::optional<StreamCopy> held_back;
  {
    MutexLock lock(mu_);
    if (way == Way::kIntoSlot) {
      last_in_ = copy;
      held_back = std::exchange(held_back_, std::nullopt);
      if (card_.canary == GpuCanary::kStaleSlot && ++waits_ % kCanaryStride == 0) return Ok{};
    }
    if (way == Way::kOutOfSlot && card_.canary == GpuCanary::kVictimOverwritten) {
      held_back_ = copy;
      return Ok{};
    }
  }
  RETURN_IF_ERROR(CopyNow(copy));
  return held_back ? CopyNow(*held_back) : Status(Ok{});
}

Status SimGpu::Record(EventHandle event, StreamHandle stream) {
  RETURN_IF_ERROR(Begin(CardCall::kRecord));
  return EmulatedGpu::Record(event, stream);
}

Status SimGpu::Wait(EventHandle event, HostWait wait) {
  RETURN_IF_ERROR(Begin(CardCall::kWait));
  std::optional<StreamCopy> held_back;
  bool spoils = false;
  {
    MutexLock lock(mu_);
    const bool of_copy = wait != HostWait::kSpin;  // who waits for runs spins
    const GpuCanary skips =
        of_copy ? GpuCanary::kRunBeforeCopyLanded : GpuCanary::kRunDoneBeforeResults;
    // The first waits are those of the device's own checks.
    if (card_.canary == skips && ++waits_ > 8 && waits_ % kCanaryStride == 0) {
      not_awaited_.insert(event);
      return Ok{};
    }
    if (of_copy) held_back = std::exchange(held_back_, std::nullopt);
    spoils = !of_copy && card_.canary == GpuCanary::kSlotGivenBackUnderRun;
  }
  if (held_back) RETURN_IF_ERROR(CopyNow(*held_back));
  if (spoils) SpoilSlot();
  return EmulatedGpu::Wait(event, wait);
}

Status SimGpu::CheckLaunch(int code) const {
  // Launching is counted by a card that changes.
  RETURN_IF_ERROR(const_cast<SimGpu*>(this)->Begin(CardCall::kLaunch));
  return EmulatedGpu::CheckLaunch(code);
}

void SimGpu::CatchUp() {
  std::set<EventHandle> behind;
  {
    MutexLock lock(mu_);
    behind = std::exchange(not_awaited_, {});
  }
  for (const EventHandle event : behind)
    static_cast<void>(EmulatedGpu::Wait(event, HostWait::kSpin));
}

void SimGpu::SpoilSlot() {
  MutexLock lock(mu_);
  if (!last_in_) return;
  const StreamCopy slot = *std::exchange(last_in_, std::nullopt);
  const size_t bytes = std::min(slot.bytes, spoilt_.size());
  static_cast<void>(EmulatedGpu::Copy(slot.to, spoilt_.data(), bytes, canary_));
}

}  // namespace moetier
