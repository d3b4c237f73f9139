#include "kernels/cuda/emulated_gpu.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/text_size.h"

namespace moetier::kernels::cuda {
namespace {

constexpr std::align_val_t kBlockAlignment{256};
constexpr int kNewByte = 0xA7;  // of memory that nobody has written

simt::Stream& StreamOf(StreamHandle stream) { return *static_cast<simt::Stream*>(stream); }
simt::Event& EventOf(EventHandle event) { return *static_cast<simt::Event*>(event); }

std::byte* NewBlock(size_t bytes) {
  return static_cast<std::byte*>(::operator new(bytes, kBlockAlignment));
}
void DeleteBlock(std::byte* block) { ::operator delete(block, kBlockAlignment); }

Error OutOfMemory(std::string message) {
  return {ErrorCode::kExhausted, Reason::kMemoryLimit, std::move(message)};
}

Error Refused(std::string message) {
  return {ErrorCode::kUnavailable, Reason::kIo, std::move(message)};
}

// The range that holds the byte, or the end.
template <typename Ranges>
auto RangeOf(const Ranges& ranges, const std::byte* at) {
  const auto next = ranges.upper_bound(at);
  if (next == ranges.begin()) return ranges.end();
  const auto before = std::prev(next);
  return at < before->first + before->second ? before : ranges.end();
}

}  // namespace

EmulatedGpu::EmulatedGpu(Options options) : options_(std::move(options)), device_(options_.grid) {}

EmulatedGpu::~EmulatedGpu() {
  MutexLock lock(mu_);
  MOE_CHECK(taken_ == 0 && (shown_.empty() || failed_),
            "{} bytes of {} are in use, {} pieces of the host shown", taken_, options_.info.name,
            shown_.size());
}

// Memory
// ------------------------------------------------------------------------------------------------

Status EmulatedGpu::CheckAlive() const {
  if (!failed_) return Ok{};
  return Refused(fmt::format("{} has failed, or was given up", options_.info.name));
}

Status EmulatedGpu::Take(size_t bytes) {
  RETURN_IF_ERROR(CheckAlive());
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
  RETURN_IF_ERROR(CheckAlive());
  return options_.info.memory - Bytes(taken_);
}

Result<std::byte*> EmulatedGpu::Reserve(size_t bytes) {
  MutexLock lock(mu_);
  RETURN_IF_ERROR(CheckAlive());
  void* const begin =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) {
    return OutOfMemory(
        fmt::format("no addresses for {}: {}", FormatSize(Bytes(bytes)), std::strerror(errno)));
  }
  reserved_[static_cast<std::byte*>(begin)] = bytes;
  return static_cast<std::byte*>(begin);
}

void EmulatedGpu::Unreserve(std::byte* begin, size_t bytes) {
  MutexLock lock(mu_);
  const auto mapped = mapped_.lower_bound(begin);
  MOE_CHECK(
      reserved_.erase(begin) == 1 && (mapped == mapped_.end() || mapped->first >= begin + bytes),
      "addresses that were not reserved, or have memory, are given back");
  munmap(begin, bytes);
}

Status EmulatedGpu::MapGranule(std::byte* at) {
  UniqueFd memory;  // of nobody else's unless it is exported
  int how = MAP_PRIVATE | MAP_ANONYMOUS;
  bool has = true;
  if (options_.sharing == Sharing::kExportable) {
    memory = UniqueFd(memfd_create("emulated GPU", MFD_CLOEXEC));
    has = memory && ftruncate(memory.get(), static_cast<off_t>(granule())) == 0;
    how = MAP_SHARED;
  }
  has = has &&
        mmap(at, granule(), PROT_READ | PROT_WRITE, how | MAP_FIXED, memory.get(), 0) != MAP_FAILED;
  if (!has) {
    return OutOfMemory(fmt::format("a granule cannot be mapped: {}", std::strerror(errno)));
  }
  std::memset(at, kNewByte, granule());
  MOE_CHECK(mapped_.emplace(at, std::move(memory)).second, "a granule is mapped twice");
  return Ok{};
}

Status EmulatedGpu::Map(std::byte* begin, size_t bytes) {
  MutexLock lock(mu_);
  RETURN_IF_ERROR(Take(bytes));
  for (size_t at = 0; at < bytes; at += granule()) {
    if (Status mapped = MapGranule(begin + at); !mapped) {
      UnmapGranules(begin, at);
      taken_ -= bytes;
      return mapped;
    }
  }
  return Ok{};
}

void EmulatedGpu::UnmapGranules(std::byte* begin, size_t bytes) {
  for (size_t at = 0; at < bytes; at += granule()) {
    MOE_CHECK(mapped_.erase(begin + at) == 1, "a granule is unmapped that has no memory");
  }
  if (bytes == 0) return;
  const void* const left =
      mmap(begin, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  MOE_CHECK(left == begin, "memory of {} bytes cannot be unmapped: {}", bytes,
            std::strerror(errno));
}

void EmulatedGpu::Unmap(std::byte* begin, size_t bytes) {
  MutexLock lock(mu_);
  UnmapGranules(begin, bytes);
  taken_ -= bytes;
}

Result<ExportedMemory> EmulatedGpu::Export(std::byte* begin, size_t bytes) {
  MutexLock lock(mu_);
  RETURN_IF_ERROR(CheckAlive());
  if (options_.sharing != Sharing::kExportable) {
    return Error{ErrorCode::kFailedPrecondition, Reason::kBadConfig,
                 "this GPU's memory was not made to be exported"};
  }
  ExportedMemory exported{.kind = ExportedMemory::Kind::kHost, .granules = {}};
  for (size_t at = 0; at < bytes; at += granule()) {
    const auto found = mapped_.find(begin + at);
    if (found == mapped_.end()) return Refused("a granule without memory cannot be exported");
    UniqueFd file(fcntl(found->second.get(), F_DUPFD_CLOEXEC, 0));
    if (!file) return ErrnoError(errno, "export a granule");
    exported.granules.push_back(std::move(file));
  }
  return exported;
}

Result<std::byte*> EmulatedGpu::Allocate(size_t bytes) {
  MutexLock lock(mu_);
  RETURN_IF_ERROR(Take(bytes));
  std::byte* const block = NewBlock(bytes);
  std::memset(block, kNewByte, bytes);
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
  RETURN_IF_ERROR(CheckAlive());
  std::byte* const block = NewBlock(bytes);
  std::memset(block, kNewByte, bytes);
  shown_[block] = bytes;
  return block;
}

void EmulatedGpu::FreeHost(std::byte* block) {
  MutexLock lock(mu_);
  MOE_CHECK(shown_.erase(block) == 1, "a block of the host that was not allocated is freed");
  DeleteBlock(block);
}

Status EmulatedGpu::ShowHost(std::span<std::byte> memory) {
  MutexLock lock(mu_);
  RETURN_IF_ERROR(CheckAlive());
  const bool fresh = shown_.emplace(memory.data(), memory.size()).second;
  MOE_CHECK(fresh, "host memory is shown to the GPU twice");
  return Ok{};
}

void EmulatedGpu::HideHost(std::span<std::byte> memory) {
  MutexLock lock(mu_);
  if (!failed_) shown_.erase(memory.data());
}

Result<const std::byte*> EmulatedGpu::AddressOf(const std::byte* host) {
  MutexLock lock(mu_);
  RETURN_IF_ERROR(CheckAlive());
  if (RangeOf(shown_, host) != shown_.end()) return host;
  return Error{ErrorCode::kFailedPrecondition, Reason::kUnspecified,
               fmt::format("host memory that {} was not shown", options_.info.name)};
}

// Work
// ------------------------------------------------------------------------------------------------

Result<StreamHandle> EmulatedGpu::NewStream() { return StreamHandle{&device_.NewStream()}; }
Result<EventHandle> EmulatedGpu::NewEvent() { return EventHandle{&device_.NewEvent()}; }

// Of one block, of mapped memory, of one piece that was shown, or of the host's other memory.
Status EmulatedGpu::CheckCopied(const std::byte* begin, size_t bytes) const {
  const auto cannot = [&](const char* what) {
    return Refused(fmt::format("{}: {} bytes of a copy {}", options_.info.name, bytes, what));
  };
  if (const auto found = RangeOf(reserved_, begin); found != reserved_.end()) {
    const auto into = static_cast<size_t>(begin - found->first);
    for (size_t at = AlignDown(into, granule()); at < into + bytes; at += granule()) {
      if (!mapped_.contains(found->first + at)) return cannot("have no memory");
    }
    return Ok{};
  }
  for (const Ranges* ranges : {&blocks_, &shown_}) {
    const auto found = RangeOf(*ranges, begin);
    if (found == ranges->end()) continue;
    if (begin + bytes <= found->first + found->second) return Ok{};
    return cannot("go beyond a block, or beyond what was shown at once");
  }
  const auto next = shown_.upper_bound(begin);
  if (next != shown_.end() && next->first < begin + bytes) return cannot("were shown in part");
  return Ok{};
}

Status EmulatedGpu::Copy(void* to, const void* from, size_t bytes, StreamHandle stream) {
  {
    MutexLock lock(mu_);
    RETURN_IF_ERROR(CheckAlive());
    RETURN_IF_ERROR(CheckCopied(static_cast<const std::byte*>(to), bytes));
    RETURN_IF_ERROR(CheckCopied(static_cast<const std::byte*>(from), bytes));
  }
  device_.Copy(to, from, bytes, StreamOf(stream));
  return Ok{};
}

Status EmulatedGpu::Record(EventHandle event, StreamHandle stream) {
  {
    MutexLock lock(mu_);
    RETURN_IF_ERROR(CheckAlive());
  }
  device_.Record(EventOf(event), StreamOf(stream));
  return Ok{};
}

Status EmulatedGpu::Wait(EventHandle event, HostWait wait) {
  {
    MutexLock lock(mu_);
    const bool ends = options_.fails_after > 0 && ++waits_ > options_.fails_after;
    hangs_ = hangs_ || (ends && options_.hangs);
    failed_ = failed_ || (ends && !options_.hangs);
    RETURN_IF_ERROR(CheckAlive());
  }
  RETURN_IF_ERROR(AwaitAnswer(wait));
  return device_.Synchronise(EventOf(event));
}

Status EmulatedGpu::AwaitAnswer(HostWait wait) {
  const auto answers = [this]() -> Result<bool> {
    MutexLock lock(mu_);
    return !hangs_;
  };
  Status answered = AwaitEvent(wait, answers, options_.longest_wait);
  if (answered) return answered;
  MutexLock lock(mu_);
  failed_ = true;
  return answered;
}

void EmulatedGpu::WaitIdle(StreamHandle stream) {
  {
    MutexLock lock(mu_);
    if (hangs_ && failed_) return;
  }
  if (!AwaitAnswer(HostWait::kSleep)) return;
  simt::Event& end = device_.NewEvent();
  device_.Record(end, StreamOf(stream));
  static_cast<void>(device_.Synchronise(end));
}

void EmulatedGpu::Hang() {
  MutexLock lock(mu_);
  hangs_ = true;
}

Status EmulatedGpu::CheckLaunch(int code) const {
  if (code == 0) return Ok{};
  return Refused(fmt::format("a launch on {} was refused with {}", options_.info.name, code));
}

}  // namespace moetier::kernels::cuda
