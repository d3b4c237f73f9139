#ifndef MOETIER_DAEMON_TRANSPORT_UNIX_SOCKET_H_
#define MOETIER_DAEMON_TRANSPORT_UNIX_SOCKET_H_

#include <sys/stat.h>
#include <sys/un.h>

#include <cstdint>
#include <string>

#include "base/result.h"

namespace moetier {

struct UnixSocketOptions {
  std::string path;  // absolute, below 108 bytes with its end
  uint32_t mode = 0600;
  std::string group;  // empty: the process's own
};

// Sets the process's file creation mask for a scope. The mask is the process's, not a thread's:
// files that other threads make meanwhile only get fewer rights.
class ScopedUmask {
 public:
  explicit ScopedUmask(mode_t mask) : before_(umask(mask)) {}
  ~ScopedUmask() { umask(before_); }
  ScopedUmask(const ScopedUmask&) = delete;
  ScopedUmask& operator=(const ScopedUmask&) = delete;

 private:
  mode_t before_;
};

// The address of a path that has been checked to fit.
sockaddr_un UnixAddress(const std::string& path);

// The path fits, its directory is there (made with 0700 if missing) and other users cannot write
// it.
Status CheckSocketPath(const UnixSocketOptions& options);

// Removes a socket left behind. kFailedPrecondition when something else than a socket is in the
// way, with kAlreadyRunning when somebody listens there.
Status PrepareUnixSocket(const UnixSocketOptions& options);

// Gives the bound socket its group, then its mode: bound under ScopedUmask(0177), it was never open
// to more than its owner before. kPermissionDenied, kNotFound name what to change.
Status OpenUnixSocket(const UnixSocketOptions& options);

}  // namespace moetier

#endif  // MOETIER_DAEMON_TRANSPORT_UNIX_SOCKET_H_
