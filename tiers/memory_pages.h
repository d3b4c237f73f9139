#ifndef MOETIER_TIERS_MEMORY_PAGES_H_
#define MOETIER_TIERS_MEMORY_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>

// The kernel's pages behind a mapping of ours: making them, and what it says they are. Any thread.

namespace moetier {

// The largest page to try. Each falls back to the next, with a name: 1 GiB and 2 MiB pages come
// from the host's hugetlb pool, transparent ones from madvise, small ones are 4 KiB.
enum class PageSize : uint8_t { k1GiB, k2MiB, kTransparent, kSmall };

inline constexpr size_t kSmallPage = 4096;
inline constexpr size_t kLargePage = size_t{2} << 20;
inline constexpr size_t kGiantPage = size_t{1} << 30;

// The size of such a page; of a transparent one, if it comes.
size_t PageBytes(PageSize pages);
// Of the host's pool, from which pages are set aside before they are used.
bool IsHugetlb(PageSize pages);

// Populated and locked in steps: progress is seen, and an error says how far it came. A single
// huge registration is what recent drivers refuse.
inline constexpr size_t kPopulateStep = size_t{256} << 20;

// Touches [begin, begin + size), which nobody uses yet, for writing; the errno, 0 if well.
int PopulatePages(std::byte* begin, size_t size);

// What PROC/self/smaps says of the mapping that starts at `base`; zeros when it is not found.
struct MappingPages {
  uint64_t huge_kib = 0;         // behind transparent huge pages, anonymous or shared
  uint64_t kernel_page_kib = 0;  // of the hugetlb pool's pages, else 4
};
MappingPages ReadMappingPages(const std::string& proc, const std::byte* base);

}  // namespace moetier

#endif  // MOETIER_TIERS_MEMORY_PAGES_H_
