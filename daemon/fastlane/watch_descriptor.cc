#include "daemon/fastlane/watch_descriptor.h"

#include <sys/epoll.h>

#include <cerrno>

#include "base/unique_fd.h"

namespace moetier {

Status WatchDescriptor(int epoll, int descriptor, uint32_t events, uint64_t number,
                       std::string_view what) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = number;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) != 0) {
    return ErrnoError(errno, fmt::format("watch {}: epoll_ctl", what));
  }
  return Ok{};
}

}  // namespace moetier
