#include "tiers/arena.h"

#include <fmt/core.h>
#include <linux/mman.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/text_size.h"
#include "base/unique_fd.h"

#ifndef MADV_POPULATE_WRITE  // glibc 2.36's headers know it under _GNU_SOURCE only from 5.14 on
#define MADV_POPULATE_WRITE 23
#endif

namespace moetier {
namespace {

constexpr size_t kSmallPage = 4096;
constexpr size_t kLargePage = size_t{2} << 20;
constexpr size_t kGiantPage = size_t{1} << 30;
// Populated and locked in steps: progress is seen, and an error says how far it came. A single
// huge registration is what recent drivers refuse.
constexpr size_t kStep = size_t{256} << 20;
constexpr double kMostlyHuge = 0.90;

size_t PageBytes(PageSize pages) {
  switch (pages) {
    case PageSize::k1GiB:
      return kGiantPage;
    case PageSize::k2MiB:
    case PageSize::kTransparent:
      return kLargePage;
    case PageSize::kSmall:
      return kSmallPage;
  }
  return kSmallPage;
}

int HugetlbFlags(PageSize pages) {
  switch (pages) {
    case PageSize::k1GiB:
      return MAP_HUGETLB | MAP_HUGE_1GB;
    case PageSize::k2MiB:
      return MAP_HUGETLB | MAP_HUGE_2MB;
    case PageSize::kTransparent:
    case PageSize::kSmall:
      return 0;
  }
  return 0;
}

bool IsHugetlb(PageSize pages) { return HugetlbFlags(pages) != 0; }

std::string ErrnoText(int error) { return ErrnoError(error, "").message.substr(2); }

Error MapError(std::string_view what, size_t size, int error) {
  return Error{ErrorCode::kExhausted, Reason::kMemoryLimit,
               fmt::format("{}: map {}: {}; lower the budget, or raise the limit of address space "
                           "(ulimit -v) or vm.overcommit_memory",
                           what, FormatSize(Bytes(size)), ErrnoText(error))};
}

// Populates [begin, begin + size) for writing; the errno, 0 if well.
int PopulateStep(std::byte* begin, size_t size) {
  int error = 0;
  do {
    error = ::madvise(begin, size, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
  } while (error == EINTR || error == EAGAIN);
  if (error != EINVAL) return error;
  // Kernels before 5.14 do not know the call: touch each page.
  for (size_t offset = 0; offset < size; offset += kSmallPage) begin[offset] = std::byte{0};
  return 0;
}

// What /proc/self/smaps says of the mapping that starts at `base`, in KiB.
struct MappingPages {
  uint64_t anon_huge_kib = 0;
  uint64_t kernel_page_kib = 0;
};

uint64_t NumberOf(std::string_view line) {
  const size_t start = line.find_first_of("0123456789");
  uint64_t value = 0;
  if (start != std::string_view::npos) {
    std::from_chars(line.data() + start, line.data() + line.size(), value);
  }
  return value;
}

MappingPages ReadMappingPages(const MemoryRoots& roots, const std::byte* base) {
  MappingPages pages;
  std::ifstream smaps(roots.proc + "/self/smaps");
  const std::string start = fmt::format("{:x}-", reinterpret_cast<uintptr_t>(base));
  bool ours = false;
  for (std::string line; std::getline(smaps, line);) {
    // A mapping's first line starts with its hexadecimal range, a field's with a capital letter.
    if (!line.empty() && !(line.front() >= 'A' && line.front() <= 'Z')) {
      if (ours) break;
      ours = line.starts_with(start);
    } else if (ours && line.starts_with("AnonHugePages:")) {
      pages.anon_huge_kib = NumberOf(line);
    } else if (ours && line.starts_with("KernelPageSize:")) {
      pages.kernel_page_kib = NumberOf(line);
    }
  }
  return pages;
}

std::string_view SettingName(TransparentHugePages setting) {
  switch (setting) {
    case TransparentHugePages::kAlways:
      return "always";
    case TransparentHugePages::kMadvise:
      return "madvise";
    case TransparentHugePages::kNever:
      return "never";
    case TransparentHugePages::kUnknown:
      return "unknown";
  }
  return "unknown";
}

}  // namespace

Result<std::unique_ptr<Arena>> Arena::Create(const ArenaPlan& plan, const ArenaOptions& options) {
  if (options.memory == ArenaMemory::kShared) {
    return Error{
        ErrorCode::kUnimplemented, Reason::kNotYet,
        fmt::format("{}: `memory: shared` is for a later version; use `private`", options.what)};
  }
  std::unique_ptr<Arena> arena(new Arena(plan));
  arena->page_size_ = "no memory";
  if (plan.total == Bytes()) return arena;
  ASSIGN_OR_RETURN(const MemoryLimits limits, ReadMemoryLimits(options.roots));
  RETURN_IF_ERROR(arena->Map(options));
  // Pages of the hugetlb pool are set aside already and count in neither limit.
  if (!IsHugetlb(arena->pages_)) {
    RETURN_IF_ERROR(CheckBudget(limits, {.what = options.what,
                                         .wanted = Bytes(arena->size_),
                                         .reserve = options.reserve,
                                         .least = plan.least}));
  }
  RETURN_IF_ERROR(arena->Populate(options));
  if (options.pinning != Pinning::kPageable) {
    const Status pinned = arena->Pin(limits);
    if (!pinned.has_value() && options.pinning == Pinning::kRequired) {
      return Error{
          pinned.error().code, pinned.error().reason,
          fmt::format("{}: {}; or set memory.lock to auto", options.what, pinned.error().message)};
    }
    if (!pinned.has_value()) {
      arena->fallbacks_.push_back({"memory_pin:pageable", pinned.error().message});
    }
  }
  arena->NamePageSize(options, limits);
  return arena;
}

Arena::~Arena() {
  if (reservation_ == nullptr) return;
  const int failed = ::munmap(reservation_, reservation_size_);
  MOE_CHECK(failed == 0, "unmap an arena of {} bytes: errno {}", size_, errno);
}

// Tries page sizes from the one asked for downwards; each is mapped in the middle of a larger
// inaccessible reservation, so that an overrun faults and no neighbour merges with the block.
Status Arena::Map(const ArenaOptions& options) {
  const uint64_t total = plan_.total.count();
  const size_t margin = PageBytes(options.pages);
  if (total > SIZE_MAX / 2 - 4 * kGiantPage) return MapError(options.what, total, ENOMEM);
  reservation_size_ = AlignUp(total, margin) + 3 * margin;
  void* reservation = ::mmap(nullptr, reservation_size_, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reservation == MAP_FAILED) return MapError(options.what, reservation_size_, errno);
  reservation_ = reservation;
  const auto start = reinterpret_cast<uintptr_t>(reservation);
  auto* const aligned = static_cast<std::byte*>(reservation) + (AlignUp(start + 1, margin) - start);

  for (pages_ = options.pages;; pages_ = static_cast<PageSize>(static_cast<int>(pages_) + 1)) {
    size_ = AlignUp(total, IsHugetlb(pages_) ? PageBytes(pages_) : kSmallPage);
    void* block = ::mmap(aligned, size_, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | HugetlbFlags(pages_), -1, 0);
    if (block != MAP_FAILED) break;
    if (!IsHugetlb(pages_)) return MapError(options.what, size_, errno);
    const bool giant = pages_ == PageSize::k1GiB;
    fallbacks_.push_back(
        {giant ? "memory_pages:2MiB" : "memory_pages:transparent",
         fmt::format("map {} in pages of {}: {}; raise {}", FormatSize(Bytes(size_)),
                     giant ? "1 GiB" : "2 MiB", ErrnoText(errno),
                     giant ? "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"
                           : "vm.nr_hugepages")});
  }
  base_ = aligned;
  // A child that forks would copy every page it touches; a core dump would write the whole arena.
  ::madvise(base_, size_, MADV_DONTFORK);
  ::madvise(base_, size_, MADV_DONTDUMP);
  if (pages_ == PageSize::kTransparent && ::madvise(base_, size_, MADV_HUGEPAGE) != 0) {
    pages_ = PageSize::kSmall;
    fallbacks_.push_back({"memory_pages:4KiB", fmt::format("madvise(MADV_HUGEPAGE): {}; the "
                                                           "kernel has no transparent huge pages",
                                                           ErrnoText(errno))});
  }
  return Ok{};
}

Status Arena::Populate(const ArenaOptions& options) {
  const size_t step = std::max(kStep, IsHugetlb(pages_) ? PageBytes(pages_) : kSmallPage);
  for (size_t done = 0; done < size_;) {
    const size_t now = std::min(step, size_ - done);
    if (const int error = PopulateStep(base_ + done, now); error != 0) {
      return Error{
          ErrorCode::kExhausted, Reason::kMemoryLimit,
          fmt::format("{}: populate {}: {} after {}; lower the budget", options.what,
                      FormatSize(Bytes(size_)), ErrnoText(error), FormatSize(Bytes(done)))};
    }
    done += now;
    if (options.on_progress && !options.on_progress(Bytes(done), Bytes(size_))) {
      return Error{ErrorCode::kCancelled, Reason::kCancelled,
                   fmt::format("{}: stopped after {} of {} were populated", options.what,
                               FormatSize(Bytes(done)), FormatSize(Bytes(size_)))};
    }
  }
  return Ok{};
}

Status Arena::Pin(const MemoryLimits& limits) {
  RETURN_IF_ERROR(CheckMemlock(limits, Bytes(size_)));
  for (size_t done = 0; done < size_; done += std::min(kStep, size_ - done)) {
    if (::mlock(base_ + done, std::min(kStep, size_ - done)) == 0) continue;
    const int error = errno;
    ::munlock(base_, size_);
    return Error{ErrorCode::kExhausted, Reason::kMemoryLimit,
                 fmt::format("lock {}: {} after {}; raise LimitMEMLOCK", FormatSize(Bytes(size_)),
                             ErrnoText(error), FormatSize(Bytes(done)))};
  }
  pinned_bytes_ = Bytes(size_);
  return Ok{};
}

void Arena::NamePageSize(const ArenaOptions& options, const MemoryLimits& limits) {
  const MappingPages got = ReadMappingPages(options.roots, base_);
  if (IsHugetlb(pages_)) {
    page_size_ = fmt::format("hugetlb {} pages", FormatSize(Bytes(got.kernel_page_kib << 10)));
    return;
  }
  const double share =
      std::min(1.0, static_cast<double>(got.anon_huge_kib << 10) / static_cast<double>(size_));
  page_size_ = share > 0 ? fmt::format("transparent 2 MiB pages for {:.0f} %", share * 100)
                         : std::string("4 KiB pages");
  // A block below one huge page cannot have any, which is nobody's fault.
  if (pages_ != PageSize::kTransparent || size_ < kLargePage) return;
  const size_t possible = AlignDown(size_, kLargePage);
  if (share * static_cast<double>(size_) >= kMostlyHuge * static_cast<double>(possible)) return;
  fallbacks_.push_back(
      {"memory_pages:4KiB",
       fmt::format("huge pages back {:.0f} % of {}; transparent_hugepage/enabled is {}: set it to "
                   "madvise, or free memory before the start if it is fragmented",
                   share * 100, FormatSize(Bytes(size_)), SettingName(limits.huge_pages))});
}

std::span<std::byte> Arena::Slot(SizeClass size_class, SlotIndex slot) const {
  MOE_CHECK(Raw(size_class) < plan_.regions.size(), "no size class {}", Raw(size_class));
  const ArenaRegion& region = plan_.regions[Raw(size_class)];
  MOE_CHECK(Raw(slot) < region.slots, "slot {} of {}", Raw(slot), region.slots);
  const uint64_t bytes = region.slot_bytes.count();
  return {base_ + region.offset + bytes * Raw(slot), bytes};
}

}  // namespace moetier
