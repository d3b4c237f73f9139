#include "tiers/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/text_size.h"
#include "tiers/memory_pages.h"

#ifndef MADV_COLLAPSE  // Linux 6.1
#define MADV_COLLAPSE 25
#endif

namespace moetier {
namespace {

// A collapse gives EAGAIN for what passes: a page that is locked or on its way elsewhere.
constexpr int kCollapseTries = 4;

}  // namespace

Result<SharedMemory> SharedMemory::MapAt(std::byte* at, size_t size) {
  const auto failed = [size](const char* step, int error) {
    return ErrnoError(error,
                      fmt::format("make {} of shared memory: {}", FormatSize(Bytes(size)), step));
  };
  const UniqueFd file(::memfd_create("moetier-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return failed("memfd_create", errno);
  if (::fchmod(file.get(), S_IRUSR) != 0) return failed("fchmod", errno);
  if (::ftruncate(file.get(), static_cast<off_t>(size)) != 0) return failed("ftruncate", errno);
  void* const block =
      ::mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0);
  if (block == MAP_FAILED) return failed("mmap", errno);
  // After the mapping, which from here on is the only one that writes.
  if (::fcntl(file.get(), F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    return failed("seal it against writers, which Linux 5.1 and later can", errno);
  }
  ASSIGN_OR_RETURN(UniqueFd read_only,
                   UniqueFd::Open(fmt::format("/proc/self/fd/{}", file.get()), O_RDONLY));
  return SharedMemory(std::move(read_only));
}

Result<UniqueFd> SharedMemory::OpenReadOnly() const {
  UniqueFd copy(::fcntl(read_only_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return ErrnoError(errno, "duplicate the shared memory's descriptor");
  return copy;
}

int CollapseShared(std::byte* begin, size_t size) {
  const size_t whole = size / kLargePage * kLargePage;
  if (whole == 0) return 0;
  for (size_t at = 0; at < whole; at += kLargePage) {
    if (const int error = PopulatePages(begin + at, kSmallPage); error != 0) return error;
  }
  int error = 0;
  for (int i = 0; i < kCollapseTries; ++i) {
    error = ::madvise(begin, whole, MADV_COLLAPSE) == 0 ? 0 : errno;
    if (error != EAGAIN) break;
  }
  return error;
}

}  // namespace moetier
