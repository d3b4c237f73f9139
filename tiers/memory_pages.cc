#include "tiers/memory_pages.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <string_view>

#ifndef MADV_POPULATE_WRITE  // glibc 2.36's headers know it under _GNU_SOURCE only from 5.14 on
#define MADV_POPULATE_WRITE 23
#endif

namespace moetier {
namespace {

uint64_t NumberOf(std::string_view line) {
  const size_t start = line.find_first_of("0123456789");
  uint64_t value = 0;
  if (start != std::string_view::npos) {
    std::from_chars(line.data() + start, line.data() + line.size(), value);
  }
  return value;
}

}  // namespace

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

bool IsHugetlb(PageSize pages) { return pages == PageSize::k1GiB || pages == PageSize::k2MiB; }

int PopulatePages(std::byte* begin, size_t size) {
  int error = 0;
  do {
    error = ::madvise(begin, size, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
  } while (error == EINTR || error == EAGAIN);
  if (error != EINVAL) return error;
  // Kernels before 5.14 do not know the call: touch each page.
  for (size_t offset = 0; offset < size; offset += kSmallPage) begin[offset] = std::byte{0};
  return 0;
}

MappingPages ReadMappingPages(const std::string& proc, const std::byte* base) {
  MappingPages pages;
  std::ifstream smaps(proc + "/self/smaps");
  const std::string start = fmt::format("{:x}-", reinterpret_cast<uintptr_t>(base));
  bool ours = false;
  for (std::string line; std::getline(smaps, line);) {
    // A mapping's first line starts with its hexadecimal range, a field's with a capital letter.
    if (!line.empty() && !(line.front() >= 'A' && line.front() <= 'Z')) {
      if (ours) break;
      ours = line.starts_with(start);
    } else if (ours &&
               (line.starts_with("AnonHugePages:") || line.starts_with("ShmemPmdMapped:"))) {
      pages.huge_kib += NumberOf(line);
    } else if (ours && line.starts_with("KernelPageSize:")) {
      pages.kernel_page_kib = NumberOf(line);
    }
  }
  return pages;
}

}  // namespace moetier
