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
  const size_t step = std::max(kStep, IsHugetlb(pages_) ? PageBytes(pages_) : kSmallPage);
  size_t before = 0;  // in the parts that are done
  for (const Part& part : parts_) {
    for (size_t at = 0; at < part.size;) {
      const size_t now = std::min(step, part.size - at);
      if (const int error = PopulateStep(part.begin + at, now); error != 0) {
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
    for (size_t at = 0; at < part.size; at += std::min(kStep, part.size - at)) {
      if (::mlock(part.begin + at, std::min(kStep, part.size - at)) == 0) continue;
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

uint32_t Arena::Places(SizeClass size_class) const {
  return regions_.empty() ? 0 : regions_[Raw(size_class)].places;
}

Status Arena::CheckResizable() const {
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
    return Error{ErrorCode::kExhausted, Reason::kMemoryLimit,
                 fmt::format("{} {} more: {}; {}", what, FormatSize(Bytes(size)), ErrnoText(error),
                             what == "lock" ? "raise LimitMEMLOCK, or set memory.lock to false"
                                            : "ask for a smaller budget, or free memory")};
  };
  if (::mprotect(begin, size, PROT_READ | PROT_WRITE) != 0) return refuse("map", errno);
  UsePages(begin, size);
  for (size_t at = 0; at < size; at += std::min(kStep, size - at)) {
    if (const int error = PopulateStep(begin + at, std::min(kStep, size - at)); error != 0) {
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

void Arena::NamePageSize(const ArenaOptions& options, const MemoryLimits& limits) {
  MappingPages got;
  size_t possible = 0;
  for (const Part& part : parts_) {
    const MappingPages pages = ReadMappingPages(options.roots, part.begin);
    got.anon_huge_kib += pages.anon_huge_kib;
    got.kernel_page_kib = pages.kernel_page_kib;
    possible += AlignDown(part.size, kLargePage);
  }
  const size_t size = size_;
  if (IsHugetlb(pages_)) {
    page_size_ = fmt::format("hugetlb {} pages", FormatSize(Bytes(got.kernel_page_kib << 10)));
    return;
  }
  const double share =
      std::min(1.0, static_cast<double>(got.anon_huge_kib << 10) / static_cast<double>(size));
  page_size_ = share > 0 ? fmt::format("transparent 2 MiB pages for {:.0f} %", share * 100)
                         : std::string("4 KiB pages");
  // A block below one huge page cannot have any, which is nobody's fault.
  if (pages_ != PageSize::kTransparent || possible == 0) return;
  if (share * static_cast<double>(size) >= kMostlyHuge * static_cast<double>(possible)) return;
  fallbacks_.push_back(
      {"memory_pages:4KiB",
       fmt::format("huge pages back {:.0f} % of {}; transparent_hugepage/enabled is {}: set it to "
                   "madvise, or free memory before the start if it is fragmented",
                   share * 100, FormatSize(Bytes(size)), SettingName(limits.huge_pages))});
}

std::span<std::byte> Arena::Slot(SizeClass size_class, SlotIndex slot) const {
  MOE_CHECK(Raw(size_class) < regions_.size(), "no size class {}", Raw(size_class));
  const Region& region = regions_[Raw(size_class)];
  MOE_CHECK(Raw(slot) < region.places, "slot {} of {}", Raw(slot), region.places);
  return {base_ + region.offset + region.slot_bytes * Raw(slot), region.slot_bytes};
}

}  // namespace moetier
