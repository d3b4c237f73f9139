#include "daemon/transport/unix_socket.h"

#include <grp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/check.h"
#include "base/unique_fd.h"

namespace moetier {
namespace {

Status CheckPath(const std::string& path) {
  if (path.empty() || path.front() != '/' || path.size() >= sizeof(sockaddr_un::sun_path)) {
    return Error{ErrorCode::kInvalidArgument, Reason::kBadConfig,
                 fmt::format("socket.path \"{}\" has {} bytes; it must be absolute and at most {}",
                             path, path.size(), sizeof(sockaddr_un::sun_path) - 1)};
  }
  return Ok{};
}

Status MakeDirectory(const std::string& directory) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(directory).parent_path();
  std::filesystem::create_directories(parent, error);  // mkdir below says what failed
  if (mkdir(directory.c_str(), 0700) == 0) return Ok{};
  if (errno != EEXIST) return ErrnoError(errno, "make the socket's directory " + directory);
  struct stat info {};
  if (stat(directory.c_str(), &info) != 0) return ErrnoError(errno, "stat " + directory);
  const bool mine = info.st_uid == geteuid() || info.st_uid == 0;
  const bool others_write = (info.st_mode & S_IWOTH) != 0;
  if (mine && !others_write) return Ok{};
  return Error{ErrorCode::kPermissionDenied, Reason::kBadConfig,
               fmt::format("{} (owner {}, mode {:04o}): others could put their own socket there; "
                           "choose a socket.path in a directory of this user, mode 0700 or 0750",
                           directory, info.st_uid, info.st_mode & 07777)};
}

Result<gid_t> FindGroup(const std::string& name) {
  std::vector<char> buffer(16 * 1024);  // one group's line with its members
  group entry{};
  group* found = nullptr;
  int error = getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  while (error == ERANGE && buffer.size() < (1u << 20)) {
    buffer.resize(buffer.size() * 2);
    error = getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  }
  if (error != 0) return ErrnoError(error, "look up the group " + name);
  if (found == nullptr) {
    return Error{ErrorCode::kNotFound, Reason::kBadConfig,
                 fmt::format("socket.group: there is no group \"{}\"; create it or leave the key "
                             "out",
                             name)};
  }
  return entry.gr_gid;
}

// Nobody listens on the socket at `path` any more: its connections are refused. Whatever else comes
// of one (a full queue, another kind of socket) is somebody's.
Status CheckLeftBehind(const std::string& path) {
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return ErrnoError(errno, "look who listens on " + path);
  const sockaddr_un address = UnixAddress(path);
  const bool answered =
      connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (!answered && (errno == ECONNREFUSED || errno == ENOENT)) return Ok{};
  if (!answered && errno != EAGAIN && errno != EPROTOTYPE) {
    return ErrnoError(errno, "look who listens on " + path);
  }
  return Error{ErrorCode::kFailedPrecondition, Reason::kAlreadyRunning,
               fmt::format("another process listens on {}; stop it (`ss -xlp` names it), or give "
                           "this daemon another socket.path",
                           path)};
}

}  // namespace

sockaddr_un UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  MOE_CHECK(path.size() < sizeof address.sun_path, "{} was checked", path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

Status CheckSocketPath(const UnixSocketOptions& options) {
  RETURN_IF_ERROR(CheckPath(options.path));
  return MakeDirectory(std::filesystem::path(options.path).parent_path().string());
}

Status PrepareUnixSocket(const UnixSocketOptions& options) {
  struct stat info {};
  if (lstat(options.path.c_str(), &info) != 0) {
    if (errno == ENOENT) return Ok{};
    return ErrnoError(errno, "stat " + options.path);
  }
  if (!S_ISSOCK(info.st_mode)) {
    return Error{ErrorCode::kFailedPrecondition, Reason::kBadConfig,
                 fmt::format("{} exists and is no socket; remove it or choose another socket.path",
                             options.path)};
  }
  RETURN_IF_ERROR(CheckLeftBehind(options.path));
  if (unlink(options.path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoError(errno, "remove the socket left behind at " + options.path);
  }
  return Ok{};
}

Status OpenUnixSocket(const UnixSocketOptions& options) {
  if (!options.group.empty()) {
    ASSIGN_OR_RETURN(const gid_t group, FindGroup(options.group));
    if (chown(options.path.c_str(), static_cast<uid_t>(-1), group) != 0) {
      return ErrnoError(errno, fmt::format("give {} to group {} (is the daemon's user a member?)",
                                           options.path, options.group));
    }
  }
  if (chmod(options.path.c_str(), options.mode) != 0) {
    return ErrnoError(errno, "set the mode of " + options.path);
  }
  return Ok{};
}

}  // namespace moetier
