#include "tiers/arena.h"

#include <fmt/core.h>
#include <linux/mman.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/text_size.h"
#include "base/unique_fd.h"
#include "tiers/memory_pages.h"

namespace moetier {
namespace {

constexpr double kMostlyHuge = 0.90;

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

std::string ErrnoText(int error) { return ErrnoError(error, "").message.substr(2); }

Error MapError(std::string_view what, size_t size, int error) {
  return Error{ErrorCode::kExhausted, Reason::kMemoryLimit,
               fmt::format("{}: map {}: {}; lower the budget, or raise the limit of address space "
                           "(ulimit -v) or vm.overcommit_memory",
                           what, FormatSize(Bytes(size)), ErrnoText(error))};
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
  std::unique_ptr<Arena> arena(new Arena(plan));
  arena->page_size_ = "no memory";
  if (plan.total == Bytes()) return arena;
  ASSIGN_OR_RETURN(const MemoryLimits limits, ReadMemoryLimits(options.roots));
  RETURN_IF_ERROR(arena->Map(options));
  // Pages of the hugetlb pool are set aside already and count in neither limit.
  if (!IsHugetlb(arena->pages_)) {
    RETURN_IF_ERROR(CheckBudget(limits, {.what = options.what,
                                         .wanted = arena->size(),
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
  MOE_CHECK(failed == 0, "unmap an arena of {} bytes: errno {}", size_.load(), errno);
}

// An inaccessible run of addresses with a `margin` of them on either side at least, so that an
// overrun faults and no neighbour merges with a part; null when the host refuses.
std::byte* Arena::Reserve(size_t size, size_t margin) {
  if (size > SIZE_MAX / 2 - 4 * kGiantPage) {
    errno = ENOMEM;
    return nullptr;
  }
  reservation_size_ = AlignUp(size, margin) + 3 * margin;
  void* reservation = ::mmap(nullptr, reservation_size_, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reservation == MAP_FAILED) return nullptr;
  reservation_ = reservation;
  const auto start = reinterpret_cast<uintptr_t>(reservation);
  return static_cast<std::byte*>(reservation) + (AlignUp(start + 1, margin) - start);
}

// A slot a record has its addresses. Regions stand at large pages, with one between them.
bool Arena::ReserveWide(const ArenaOptions& options) {
  if (IsHugetlb(options.pages)) return false;
  uint64_t offset = 0;
  std::vector<Region> regions;
  for (const ArenaRegion& region : plan_.regions) {
    const uint32_t places = std::max(region.slots, region.records);
    const uint64_t bytes = region.slot_bytes.count();
    if (bytes > 0 && places > (SIZE_MAX / 4 - offset) / bytes) return false;
    grows_ |= places > region.slots;
    regions.push_back({offset, bytes, places});
    offset = AlignUp(offset + bytes * places, kLargePage) + kLargePage;
  }
  base_ = Reserve(offset, kLargePage);
  if (base_ == nullptr) return false;
  regions_ = std::move(regions);
  for (size_t i = 0; i < regions_.size(); ++i) {
    const size_t size = regions_[i].slot_bytes * plan_.regions[i].slots;
    if (size > 0) parts_.push_back({base_ + regions_[i].offset, size});
  }
  return true;
}

// The plan's slots have theirs, one region behind the other.
Status Arena::ReserveClose(const ArenaOptions& options) {
  grows_ = false;
  base_ = Reserve(plan_.total.count(), PageBytes(options.pages));
  if (base_ == nullptr) return MapError(options.what, plan_.total.count(), errno);
  for (const ArenaRegion& region : plan_.regions) {
    regions_.push_back({region.offset, region.slot_bytes.count(), region.slots});
  }
  parts_.push_back({base_, plan_.total.count()});
  return Ok{};
}

Status Arena::Map(const ArenaOptions& options) {
  if (options.memory == ArenaMemory::kShared) return MapShared(options);
  if (!ReserveWide(options)) {
    const bool wanted = grows_;
    const int error = errno;
    RETURN_IF_ERROR(ReserveClose(options));
    if (wanted) {
      fallbacks_.push_back(
          {"memory_growth:none",
           fmt::format("addresses for all of the model's experts: {}; the budget cannot be raised "
                       "above {} while the model is loaded",
                       ErrnoText(error), FormatSize(plan_.total))});
    }
  }
  return MapParts(options);
}

// One block of a size for good, so that what a client maps is the arena and no more.
Status Arena::MapShared(const ArenaOptions& options) {
  if (IsHugetlb(options.pages)) {
    return Error{ErrorCode::kInvalidArgument, Reason::kBadConfig,
                 fmt::format("{}: shared memory is not made of the hugetlb pool's pages; take "
                             "transparent ones, or private memory",
                             options.what)};
  }
  RETURN_IF_ERROR(ReserveClose(options));
  pages_ = options.pages;
  Part& block = parts_.front();
  block.size = AlignUp(block.size, kSmallPage);
  Result<SharedMemory> shared = SharedMemory::MapAt(block.begin, block.size);
  if (!shared) {
    Error error = std::move(shared).error();
    error.message =
        fmt::format("{}: {}; or set memory.arena to private", options.what, error.message);
    return error;
  }
  shared_ = *std::move(shared);
  size_ = block.size;
  UsePages(block.begin, block.size);
  return Ok{};
}

// Tries page sizes from the one asked for downwards.
Status Arena::MapParts(const ArenaOptions& options) {
  pages_ = options.pages;
  for (Part& part : parts_) {
    const size_t bytes = part.size;
    for (;; pages_ = static_cast<PageSize>(static_cast<int>(pages_) + 1)) {
      part.size = AlignUp(bytes, IsHugetlb(pages_) ? PageBytes(pages_) : kSmallPage);
      void* block = ::mmap(part.begin, part.size, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | HugetlbFlags(pages_), -1, 0);
      if (block != MAP_FAILED) break;
      if (!IsHugetlb(pages_)) return MapError(options.what, part.size, errno);
      const bool giant = pages_ == PageSize::k1GiB;
      fallbacks_.push_back(
          {giant ? "memory_pages:2MiB" : "memory_pages:transparent",
           fmt::format("map {} in pages of {}: {}; raise {}", FormatSize(Bytes(part.size)),
                       giant ? "1 GiB" : "2 MiB", ErrnoText(errno),
                       giant ? "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"
                             : "vm.nr_hugepages")});
    }
    size_ += part.size;
  }
  for (const Part& part : parts_) UsePages(part.begin, part.size);
  return Ok{};
}

void Arena::UsePages(std::byte* begin, size_t size) {
  // A child that forks would copy every page it touches; a core dump would write the whole arena.
  ::madvise(begin, size, MADV_DONTFORK);
  ::madvise(begin, size, MADV_DONTDUMP);
  if (pages_ == PageSize::kTransparent && ::madvise(begin, size, MADV_HUGEPAGE) != 0) {
    pages_ = PageSize::kSmall;
    fallbacks_.push_back({"memory_pages:4KiB", fmt::format("madvise(MADV_HUGEPAGE): {}; the "
                                                           "kernel has no transparent huge pages",
                                                           ErrnoText(errno))});
  }
}

Status Arena::Populate(const ArenaOptions& options) {
  const size_t step = std::max(kPopulateStep, IsHugetlb(pages_) ? PageBytes(pages_) : kSmallPage);
  size_t before = 0;  // in the parts that are done
  for (const Part& part : parts_) {
    for (size_t at = 0; at < part.size;) {
      const size_t now = std::min(step, part.size - at);
      if (shared_ && pages_ == PageSize::kTransparent) {
        const int collapsed = CollapseShared(part.begin + at, now);
        if (collapse_error_ == 0) collapse_error_ = collapsed;
      }
      if (const int error = PopulatePages(part.begin + at, now); error != 0) {
        return Error{
            ErrorCode::kExhausted, Reason::kMemoryLimit,
            fmt::format("{}: populate {}: {} after {}; lower the budget", options.what,
                        FormatSize(size()), ErrnoText(error), FormatSize(Bytes(before + at)))};
      }
      at += now;
      const Bytes done(before + at);
      if (options.on_progress && !options.on_progress(done, size())) {
        return Error{ErrorCode::kCancelled, Reason::kCancelled,
                     fmt::format("{}: stopped after {} of {} were populated", options.what,
                                 FormatSize(done), FormatSize(size()))};
      }
    }
    before += part.size;
  }
  return Ok{};
}

Status Arena::Pin(const MemoryLimits& limits) {
  RETURN_IF_ERROR(CheckMemlock(limits, size()));
  size_t before = 0;
  for (const Part& part : parts_) {
    for (size_t at = 0; at < part.size; at += std::min(kPopulateStep, part.size - at)) {
      if (::mlock(part.begin + at, std::min(kPopulateStep, part.size - at)) == 0) continue;
      const int error = errno;
      for (const Part& locked : parts_) ::munlock(locked.begin, locked.size);
      return Error{ErrorCode::kExhausted, Reason::kMemoryLimit,
                   fmt::format("lock {}: {} after {}; raise LimitMEMLOCK", FormatSize(size()),
                               ErrnoText(error), FormatSize(Bytes(before + at)))};
    }
    before += part.size;
  }
  pinned_bytes_ = size_.load();
  return Ok{};
}

void Arena::NamePageSize(const ArenaOptions& options, const MemoryLimits& limits) {
  MappingPages got;
  size_t possible = 0;
  for (const Part& part : parts_) {
    const MappingPages pages = ReadMappingPages(options.roots.proc, part.begin);
    got.huge_kib += pages.huge_kib;
    got.kernel_page_kib = pages.kernel_page_kib;
    possible += AlignDown(part.size, kLargePage);
  }
  const size_t size = size_;
  if (IsHugetlb(pages_)) {
    page_size_ = fmt::format("hugetlb {} pages", FormatSize(Bytes(got.kernel_page_kib << 10)));
    return;
  }
  const double share =
      std::min(1.0, static_cast<double>(got.huge_kib << 10) / static_cast<double>(size));
  page_size_ = share > 0 ? fmt::format("transparent 2 MiB pages for {:.0f} %", share * 100)
                         : std::string("4 KiB pages");
  if (shared_) page_size_ = "shared, " + page_size_;
  // A block below one huge page cannot have any, which is nobody's fault.
  if (pages_ != PageSize::kTransparent || possible == 0) return;
  if (share * static_cast<double>(size) >= kMostlyHuge * static_cast<double>(possible)) return;
  fallbacks_.push_back(
      {"memory_pages:4KiB", fmt::format("huge pages back {:.0f} % of {}; {}", share * 100,
                                        FormatSize(Bytes(size)), SmallPagesReason(limits))});
}

std::string Arena::SmallPagesReason(const MemoryLimits& limits) const {
  if (shared_) {
    return fmt::format(
        "madvise(MADV_COLLAPSE): {}. Direct reads into small shared pages have half the speed: run "
        "Linux 6.1 or later, let transparent_hugepage/shmem_enabled not be deny, free memory "
        "before the start if it is fragmented, or set memory.arena to private",
        collapse_error_ == 0 ? "no error" : ErrnoText(collapse_error_));
  }
  return fmt::format(
      "transparent_hugepage/enabled is {}: set it to madvise, or free memory before the start if "
      "it is fragmented",
      SettingName(limits.huge_pages));
}

const Arena::Region& Arena::Checked(SizeClass size_class, SlotIndex slot) const {
  MOE_CHECK(Raw(size_class) < regions_.size(), "no size class {}", Raw(size_class));
  const Region& region = regions_[Raw(size_class)];
  MOE_CHECK(Raw(slot) < region.places, "slot {} of {}", Raw(slot), region.places);
  return region;
}

std::span<std::byte> Arena::Slot(SizeClass size_class, SlotIndex slot) const {
  return {base_ + Offset(size_class, slot), Checked(size_class, slot).slot_bytes};
}

uint64_t Arena::Offset(SizeClass size_class, SlotIndex slot) const {
  const Region& region = Checked(size_class, slot);
  return region.offset + region.slot_bytes * Raw(slot);
}

Result<UniqueFd> Arena::OpenReadOnly() const {
  if (shared_) return shared_->OpenReadOnly();
  return Error{ErrorCode::kFailedPrecondition, Reason::kBadConfig,
               "the memory is private to the daemon and cannot be mapped; set memory.arena to "
               "shared and restart it"};
}

}  // namespace moetier
