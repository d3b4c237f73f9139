#include "daemon/transport/unix_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace moetier {
namespace {

constexpr int kBacklog = 128;

}  // namespace

Result<UnixListener> UnixListener::Bind(const UnixSocketOptions& options, int type) {
  RETURN_IF_ERROR(CheckSocketPath(options));
  ASSIGN_OR_RETURN(PidLock lock, PidLock::Take(options.path + ".lock",
                                               "stop it, or give this one another socket.path"));
  RETURN_IF_ERROR(PrepareUnixSocket(options));
  UnixListener listener(std::move(lock), options.path);
  UniqueFd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return ErrnoError(errno, "make the socket " + options.path);
  const sockaddr_un address = UnixAddress(options.path);
  {
    const ScopedUmask owner_only(0177);
    if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      return ErrnoError(errno, "bind " + options.path);
    }
  }
  struct stat info {};
  if (lstat(options.path.c_str(), &info) != 0) return ErrnoError(errno, "stat " + options.path);
  listener.socket_ = std::move(socket);  // from here on the path is given back
  listener.device_ = info.st_dev;
  listener.inode_ = info.st_ino;
  RETURN_IF_ERROR(OpenUnixSocket(options));
  return listener;
}

Status UnixListener::Listen() {
  if (listen(socket_.get(), kBacklog) == 0) return Ok{};
  return ErrnoError(errno, "listen on " + path_);
}

void UnixListener::Close() {
  if (!socket_) return;
  struct stat info {};
  const bool ours =
      lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_;
  if (ours) unlink(path_.c_str());
  socket_.Reset();
}

}  // namespace moetier
