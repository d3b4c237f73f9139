#ifndef MOETIER_DAEMON_SCHEDULING_PREHEAT_H_
#define MOETIER_DAEMON_SCHEDULING_PREHEAT_H_

#include <cstdint>
#include <set>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"

namespace moetier {

struct PreheatProgress {
  bool under_way = false;
  uint64_t records_done = 0;  // landed, there already or given up
  uint64_t records_total = 0;
  Bytes bytes_done;
  Bytes bytes_total;
};

// Experts of one model that are loaded before anybody asks for them, into slots that are free.
// Threads: the executor's only.
struct Preheat {
  std::vector<ExpertKey> keys;  // the hottest first
  size_t next = 0;              // the first that was not tried yet
  std::set<ExpertKey> reading;
  PreheatProgress progress;
  TimePoint begun;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_PREHEAT_H_
