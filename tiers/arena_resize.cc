// Arena's size under load: memory of single slots goes back to the host and comes again.

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/text_size.h"
#include "base/unique_fd.h"
#include "tiers/arena.h"

namespace moetier {

uint32_t Arena::Places(SizeClass size_class) const {
  return regions_.empty() ? 0 : regions_[Raw(size_class)].places;
}

Status Arena::CheckResizable() const {
  if (shared_) {
    return Error{ErrorCode::kFailedPrecondition, Reason::kUnspecified,
                 "its memory is shared with engines, which have mapped its size; unload the model "
                 "and load it with the other budget, or set memory.arena to private and restart"};
  }
  if (!IsHugetlb(pages_)) return Ok{};
  return Error{ErrorCode::kFailedPrecondition, Reason::kUnspecified,
               "its memory is of the hugetlb pool, which takes none back by the slot; unload the "
               "model and load it with the other budget"};
}

void Arena::GiveBack(SizeClass size_class, SlotIndex slot) {
  const std::span<std::byte> memory = Slot(size_class, slot);
  if (pinned_bytes_ > 0) {
    ::munlock(memory.data(), memory.size());
    pinned_bytes_ -= memory.size();
  }
  const int failed = ::madvise(memory.data(), memory.size(), MADV_DONTNEED);
  MOE_CHECK(failed == 0, "give back slot {} of {} bytes: errno {}", Raw(slot), memory.size(),
            errno);
  size_ -= memory.size();
}

Status Arena::Take(SizeClass size_class, SlotIndex first, uint32_t count) {
  const Region& region = regions_[Raw(size_class)];
  MOE_CHECK(Raw(first) + uint64_t{count} <= region.places, "slots {} to {} of {}", Raw(first),
            Raw(first) + uint64_t{count}, region.places);
  std::byte* const begin = base_ + region.offset + region.slot_bytes * Raw(first);
  const size_t size = region.slot_bytes * count;
  const auto refuse = [&](std::string_view what, int error) {
    ::madvise(begin, size, MADV_DONTNEED);
    return Error{
        ErrorCode::kExhausted, Reason::kMemoryLimit,
        fmt::format(
            "{}; {}",
            ErrnoError(error, fmt::format("{} {} more", what, FormatSize(Bytes(size)))).message,
            what == "lock" ? "raise LimitMEMLOCK, or set memory.lock to false"
                           : "ask for a smaller budget, or free memory")};
  };
  if (::mprotect(begin, size, PROT_READ | PROT_WRITE) != 0) return refuse("map", errno);
  UsePages(begin, size);
  for (size_t at = 0; at < size; at += std::min(kPopulateStep, size - at)) {
    if (const int error = PopulatePages(begin + at, std::min(kPopulateStep, size - at));
        error != 0) {
      return refuse("populate", error);
    }
  }
  if (pinned_bytes_ > 0) {
    if (::mlock(begin, size) != 0) {
      const int error = errno;
      ::munlock(begin, size);
      return refuse("lock", error);
    }
    pinned_bytes_ += size;
  }
  size_ += size;
  return Ok{};
}

}  // namespace moetier
