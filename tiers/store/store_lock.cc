#include "tiers/store/store_lock.h"

#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/regular_file.h"

namespace moetier {
namespace {

// The pid in the lock file; "unknown" when the holder has not written it yet.
std::string HolderPid(int fd) {
  std::array<char, 16> text{};
  const ssize_t got = ::pread(fd, text.data(), text.size() - 1, 0);
  const std::string pid(text.data(), got > 0 ? static_cast<size_t>(got) : 0);
  const size_t digits = pid.find_first_not_of("0123456789");
  return digits == 0 || pid.empty() ? "unknown" : pid.substr(0, digits);
}

}  // namespace

Result<StoreLock> StoreLock::Take(const std::string& directory) {
  const std::string path = fmt::format("{}/{}", directory, kLockFileName);
  ASSIGN_OR_RETURN(UniqueFd fd, OpenRegularFile(path, O_RDWR | O_CREAT));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoError(errno, fmt::format("lock {}", path));
    return Error{ErrorCode::kFailedPrecondition, Reason::kStoreLocked,
                 fmt::format("{} is being written by process {}; wait for it or stop it", directory,
                             HolderPid(fd.get()))};
  }
  // The pid is for other people's messages only: on a full disk the lock holds without it.
  const std::string pid = fmt::format("{}\n", ::getpid());
  [[maybe_unused]] const bool named =
      ::ftruncate(fd.get(), 0) == 0 && ::pwrite(fd.get(), pid.data(), pid.size(), 0) > 0;
  return StoreLock(std::move(fd));
}

}  // namespace moetier
