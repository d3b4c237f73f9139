#include "kernels/cuda/emulated_gpu.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/text_size.h"

namespace moetier::kernels::cuda {
namespace {

constexpr std::align_val_t kBlockAlignment{256};

simt::Stream& StreamOf(StreamHandle stream) { return *static_cast<simt::Stream*>(stream); }
simt::Event& EventOf(EventHandle event) { return *static_cast<simt::Event*>(event); }

std::byte* NewBlock(size_t bytes) {
  return static_cast<std::byte*>(::operator new(bytes, kBlockAlignment));
}
void DeleteBlock(std::byte* block) { ::operator delete(block, kBlockAlignment); }

Error OutOfMemory(std::string message) {
  return {ErrorCode::kExhausted, Reason::kNoRoom, std::move(message)};
}

}  // namespace

EmulatedGpu::EmulatedGpu(Options options) : options_(std::move(options)), device_(options_.grid) {}

EmulatedGpu::~EmulatedGpu() {
  MutexLock lock(mu_);
  MOE_CHECK(taken_ == 0 && shown_.empty(), "{} bytes of {} are in use, {} pieces of the host shown",
            taken_, options_.info.name, shown_.size());
}

// Memory
// ------------------------------------------------------------------------------------------------

Status EmulatedGpu::Take(size_t bytes) {
  const size_t all = options_.info.memory.count();
  if (bytes > all - taken_) {
    return OutOfMemory(fmt::format("{} has {} of {} left, {} are wanted", options_.info.name,
                                   FormatSize(Bytes(all - taken_)), FormatSize(Bytes(all)),
                                   FormatSize(Bytes(bytes))));
  }
  taken_ += bytes;
  return Ok{};
}

Result<Bytes> EmulatedGpu::FreeMemory() {
  MutexLock lock(mu_);
  return options_.info.memory - Bytes(taken_);
}

Result<std::byte*> EmulatedGpu::Reserve(size_t bytes) {
  void* const begin =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) {
    return OutOfMemory(
        fmt::format("no addresses for {}: {}", FormatSize(Bytes(bytes)), std::strerror(errno)));
  }
  return static_cast<std::byte*>(begin);
}

void EmulatedGpu::Unreserve(std::byte* begin, size_t bytes) { munmap(begin, bytes); }

Status EmulatedGpu::Map(std::byte* begin, size_t bytes) {
  MutexLock lock(mu_);
  RETURN_IF_ERROR(Take(bytes));
  if (mprotect(begin, bytes, PROT_READ | PROT_WRITE) == 0) return Ok{};
  taken_ -= bytes;
  return OutOfMemory(
      fmt::format("{} cannot be mapped: {}", FormatSize(Bytes(bytes)), std::strerror(errno)));
}

void EmulatedGpu::Unmap(std::byte* begin, size_t bytes) {
  MutexLock lock(mu_);
  MOE_CHECK(madvise(begin, bytes, MADV_DONTNEED) == 0 && mprotect(begin, bytes, PROT_NONE) == 0,
            "memory of {} bytes cannot be unmapped: {}", bytes, std::strerror(errno));
  taken_ -= bytes;
}

Result<std::byte*> EmulatedGpu::Allocate(size_t bytes) {
  MutexLock lock(mu_);
  RETURN_IF_ERROR(Take(bytes));
  std::byte* const block = NewBlock(bytes);
  blocks_[block] = bytes;
  return block;
}

void EmulatedGpu::Free(std::byte* block) {
  MutexLock lock(mu_);
  const auto found = blocks_.find(block);
  MOE_CHECK(found != blocks_.end(), "a block of the GPU that was not allocated is freed");
  taken_ -= found->second;
  blocks_.erase(found);
  DeleteBlock(block);
}

Result<std::byte*> EmulatedGpu::AllocateHost(size_t bytes) {
  MutexLock lock(mu_);
  std::byte* const block = NewBlock(bytes);
  shown_[block] = bytes;
  return block;
}

void EmulatedGpu::FreeHost(std::byte* block) {
  HideHost({block, 1});
  DeleteBlock(block);
}

Status EmulatedGpu::ShowHost(std::span<std::byte> memory) {
  MutexLock lock(mu_);
  const bool fresh = shown_.emplace(memory.data(), memory.size()).second;
  MOE_CHECK(fresh, "host memory is shown to the GPU twice");
  return Ok{};
}

void EmulatedGpu::HideHost(std::span<std::byte> memory) {
  MutexLock lock(mu_);
  MOE_CHECK(shown_.erase(memory.data()) == 1, "host memory is hidden that was not shown");
}

Result<const std::byte*> EmulatedGpu::AddressOf(const std::byte* host) {
  MutexLock lock(mu_);
  const auto next = shown_.upper_bound(host);
  if (next != shown_.begin()) {
    const auto& [begin, bytes] = *std::prev(next);
    if (host < begin + bytes) return host;
  }
  return Error{ErrorCode::kFailedPrecondition, Reason::kUnspecified,
               fmt::format("host memory that {} was not shown", options_.info.name)};
}

// Work
// ------------------------------------------------------------------------------------------------

Result<StreamHandle> EmulatedGpu::NewStream() { return StreamHandle{&device_.NewStream()}; }
Result<EventHandle> EmulatedGpu::NewEvent(HostWait /*wait*/) {
  return EventHandle{&device_.NewEvent()};
}

Status EmulatedGpu::Copy(void* to, const void* from, size_t bytes, StreamHandle stream) {
  device_.Copy(to, from, bytes, StreamOf(stream));
  return Ok{};
}

Status EmulatedGpu::Record(EventHandle event, StreamHandle stream) {
  device_.Record(EventOf(event), StreamOf(stream));
  return Ok{};
}

Status EmulatedGpu::Wait(EventHandle event) {
  {
    MutexLock lock(mu_);
    if (options_.fails_after > 0 && ++waits_ > options_.fails_after) {
      return Error{
          ErrorCode::kUnavailable, Reason::kIo,
          fmt::format("{} fails after {} waits", options_.info.name, options_.fails_after)};
    }
  }
  return device_.Synchronise(EventOf(event));
}

Status EmulatedGpu::CheckLaunch(int code) const {
  if (code == 0) return Ok{};
  return Error{ErrorCode::kUnavailable, Reason::kIo,
               fmt::format("a launch on {} was refused with {}", options_.info.name, code)};
}

}  // namespace moetier::kernels::cuda
