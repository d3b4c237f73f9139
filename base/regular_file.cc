#include "base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string_view>

#include "base/permission_remedy.h"

namespace moetier {
namespace {

std::string_view KindName(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "a regular file";
    case S_IFDIR:
      return "a directory";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
      return "a character device";
    case S_IFBLK:
      return "a block device";
    default:
      return "no file";
  }
}

bool IsAllowed(mode_t mode, FileKinds kinds) {
  return S_ISREG(mode) || (kinds == FileKinds::kRegularOrBlockDevice && S_ISBLK(mode));
}

Error WrongKind(const std::string& path, mode_t mode, FileKinds kinds) {
  return Error{ErrorCode::kInvalidArgument, Reason::kIo,
               fmt::format("open {}: it is {}; a regular file{} is needed", path, KindName(mode),
                           kinds == FileKinds::kRegular ? "" : " or a block device")};
}

std::optional<std::string> DanglingTarget(const std::string& path) {
  std::array<char, 4096> target;  // 4096: PATH_MAX
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  if (length < 0) return std::nullopt;
  return std::string(target.data(), static_cast<size_t>(length));
}

// errno's own text where it says enough; else what lies at the path.
Error OpenError(int error_number, const std::string& path, FileKinds kinds) {
  struct stat info {};
  // A socket and a device without a driver are ENXIO, a directory opened for writing EISDIR, and
  // what has no direct I/O EINVAL.
  const bool odd = error_number == ENXIO || error_number == EISDIR || error_number == ENODEV ||
                   error_number == EINVAL;
  if (odd && ::stat(path.c_str(), &info) == 0 && !IsAllowed(info.st_mode, kinds)) {
    return WrongKind(path, info.st_mode, kinds);
  }
  Error error = ErrnoError(error_number, fmt::format("open {}", path));
  if (error_number == ENOTDIR) error.message += ": what stands before the last `/` is a file";
  if (error_number == EACCES) error.message += ": " + PermissionRemedy(path);
  if (error_number != ENOENT) return error;
  if (const std::optional<std::string> target = DanglingTarget(path)) {
    error.message += fmt::format(": it is a symbolic link to {}, which does not exist", *target);
  }
  return error;
}

}  // namespace

Result<UniqueFd> OpenRegularFile(const std::string& path, int flags, FileKinds kinds, mode_t mode) {
  // O_NONBLOCK: the open of a FIFO without a writer would wait for one. O_NOCTTY: a terminal in the
  // file's place must not become ours.
  const int wanted = flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  int opened = -1;
  do {
    opened = ::open(path.c_str(), wanted, mode);
  } while (opened < 0 && errno == EINTR);
  if (opened < 0) return OpenError(errno, path, kinds);
  UniqueFd fd(opened);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return ErrnoError(errno, fmt::format("stat {}", path));
  if (!IsAllowed(info.st_mode, kinds)) return WrongKind(path, info.st_mode, kinds);
  // Off again: io_uring takes it for "fail with EAGAIN rather than wait for the drive".
  const int now = ::fcntl(fd.get(), F_GETFL);
  if (now < 0 || ::fcntl(fd.get(), F_SETFL, now & ~O_NONBLOCK) != 0) {
    return ErrnoError(errno, fmt::format("set the flags of {}", path));
  }
  return fd;
}

}  // namespace moetier
