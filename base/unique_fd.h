#ifndef MOETIER_BASE_UNIQUE_FD_H_
#define MOETIER_BASE_UNIQUE_FD_H_

#include <fcntl.h>

#include <string>
#include <utility>

#include "base/result.h"

namespace moetier {

// Owns one file descriptor. Threads: as int.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { Reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  // open(2) with O_CLOEXEC added; the error names the path and errno's text. ENOENT is kNotFound,
  // EACCES kPermissionDenied, ENOSPC kOutOfSpace, the rest kUnavailable with Reason::kIo.
  static Result<UniqueFd> Open(const std::string& path, int flags, mode_t mode = 0644);

  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void Reset();

 private:
  int fd_ = -1;
};

// The Error for a failed system call: "open /x: No such file or directory". Where the limit on
// open files was met, with that limit and its remedy.
Error ErrnoError(int error_number, std::string what);

}  // namespace moetier

#endif  // MOETIER_BASE_UNIQUE_FD_H_
