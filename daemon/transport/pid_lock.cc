#include "daemon/transport/pid_lock.h"

#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace moetier {
namespace {

// What the owner has written; only for the message, so that anything odd reads as "unknown".
std::string OwnerPid(int fd) {
  std::array<char, 16> text{};
  const ssize_t length = pread(fd, text.data(), text.size(), 0);
  std::string pid;
  for (ssize_t i = 0; i < length; ++i) {
    const char c = text[static_cast<size_t>(i)];
    if (c < '0' || c > '9') break;
    pid.push_back(c);
  }
  return pid.empty() ? "unknown" : pid;
}

Status WritePid(int fd, const std::string& path) {
  const std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(fd, 0) != 0 ||
      pwrite(fd, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return ErrnoError(errno, "write " + path);
  }
  return Ok{};
}

}  // namespace

Result<PidLock> PidLock::Take(const std::string& path, std::string_view advice) {
  ASSIGN_OR_RETURN(UniqueFd fd, UniqueFd::Open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoError(errno, "lock " + path);
    return Error{ErrorCode::kFailedPrecondition, Reason::kAlreadyRunning,
                 fmt::format("{} is locked by the daemon with pid {}; {}", path, OwnerPid(fd.get()),
                             advice)};
  }
  RETURN_IF_ERROR(WritePid(fd.get(), path));
  return PidLock(std::move(fd));
}

}  // namespace moetier
