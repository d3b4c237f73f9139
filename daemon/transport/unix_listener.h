#ifndef MOETIER_DAEMON_TRANSPORT_UNIX_LISTENER_H_
#define MOETIER_DAEMON_TRANSPORT_UNIX_LISTENER_H_

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "daemon/transport/pid_lock.h"
#include "daemon/transport/unix_socket.h"

namespace moetier {

// A Unix socket of this process at a path, and the right to that path: a PidLock on PATH.lock.
// Threads: as int. Lifetime: the destructor gives the path back.
class UnixListener {
 public:
  // Binds; connections are refused until Listen. Errors name the path and what to change:
  // kAlreadyRunning when another process holds the lock or listens there, kBadConfig for a path or
  // group that cannot be.
  static Result<UnixListener> Bind(const UnixSocketOptions& options, int type);
  ~UnixListener() { Close(); }
  UnixListener(UnixListener&& other) noexcept = default;
  UnixListener& operator=(UnixListener&& other) = delete;

  // From here on clients get in, or wait for it.
  Status Listen();
  // Takes no more connections and removes the socket, if the path still holds this one.
  void Close();

  [[nodiscard]] int descriptor() const { return socket_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  UnixListener(PidLock lock, std::string path) : lock_(std::move(lock)), path_(std::move(path)) {}

  PidLock lock_;  // held until the path is given back
  std::string path_;
  UniqueFd socket_;
  dev_t device_ = 0;  // with inode_: which file is ours
  ino_t inode_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_TRANSPORT_UNIX_LISTENER_H_
