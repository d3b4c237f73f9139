#include "base/unique_fd.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace moetier {

Result<UniqueFd> UniqueFd::Open(const std::string& path, int flags, mode_t mode) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return ErrnoError(errno, fmt::format("open {}", path));
  return UniqueFd(fd);
}

void UniqueFd::Reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

namespace {

// The limit on open files is met wherever a descriptor is asked for, so its remedy is named here.
std::string OpenFilesRemedy() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  return fmt::format(" (limit {}); raise LimitNOFILE (ulimit -n)", limit.rlim_cur);
}

}  // namespace

Error ErrnoError(int error_number, std::string what) {
  Error error{ErrorCode::kUnavailable, Reason::kIo, {}};
  if (error_number == ENOENT) error.code = ErrorCode::kNotFound;
  if (error_number == EACCES || error_number == EPERM) error.code = ErrorCode::kPermissionDenied;
  if (error_number == ENOSPC || error_number == EDQUOT) {
    error.code = ErrorCode::kExhausted;
    error.reason = Reason::kOutOfSpace;
  }
  error.message = fmt::format("{}: {}", what, std::generic_category().message(error_number));
  if (error_number == EMFILE) error.message += OpenFilesRemedy();
  if (error_number == ENFILE) error.message += "; raise fs.file-max (sysctl)";
  return error;
}

}  // namespace moetier
