#include "daemon/transport/descriptor_room.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "base/unique_fd.h"

namespace moetier {
namespace {

constexpr uint64_t kKept = 64;        // of the limit, but at most a quarter: for the daemon itself
constexpr uint64_t kMostUsed = 8192;  // a connection costs memory too, some 30 KiB

}  // namespace

Status CheckDescriptorRoom(int descriptor) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return ErrnoError(errno, "ask for RLIMIT_NOFILE");
  const uint64_t allowed = limit.rlim_cur;
  const uint64_t usable = std::min(allowed - std::min(kKept, allowed / 4), kMostUsed);
  // The kernel gives the lowest free number: as many are in use, at least.
  const UniqueFd lowest(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (lowest && static_cast<uint64_t>(lowest.get()) < usable) return Ok{};
  return Error{ErrorCode::kExhausted, Reason::kQuota,
               fmt::format("{} of {} descriptors may be used and are; end clients that hold idle "
                           "connections, or raise LimitNOFILE of the unit (`ulimit -n`)",
                           usable, allowed)};
}

}  // namespace moetier
