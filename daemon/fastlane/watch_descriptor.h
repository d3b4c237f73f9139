#ifndef MOETIER_DAEMON_FASTLANE_WATCH_DESCRIPTOR_H_
#define MOETIER_DAEMON_FASTLANE_WATCH_DESCRIPTOR_H_

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace moetier {

// Has `epoll` report `events` of `descriptor` under `number`. An error names `what` is watched.
Status WatchDescriptor(int epoll, int descriptor, uint32_t events, uint64_t number,
                       std::string_view what);

}  // namespace moetier

#endif  // MOETIER_DAEMON_FASTLANE_WATCH_DESCRIPTOR_H_
