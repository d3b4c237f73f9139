#include "base/open_files.h"

#include <sys/resource.h>

#include <cerrno>

#include "base/unique_fd.h"

namespace moetier {

Status RaiseOpenFileLimit(uint64_t needed) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return ErrnoError(errno, "ask for RLIMIT_NOFILE");
  if (limit.rlim_max < needed) {
    return Error{ErrorCode::kExhausted, Reason::kIo,
                 fmt::format("{} open files may be needed, {} are allowed: raise LimitNOFILE of "
                             "the unit (or `ulimit -n`, /etc/security/limits.conf)",
                             needed, limit.rlim_max)};
  }
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) return Ok{};
  return ErrnoError(errno, fmt::format("raise RLIMIT_NOFILE to {}", limit.rlim_max));
}

}  // namespace moetier
