#ifndef MOETIER_DAEMON_SCHEDULING_READ_FORECAST_H_
#define MOETIER_DAEMON_SCHEDULING_READ_FORECAST_H_

#include <cstdint>
#include <span>

#include "daemon/scheduling/cost_source.h"

namespace moetier {

// Says when reads from a drive will land: one queue, first in, first out. A read of a batch takes
// the deep queue's time, a lone one its own; whoever finds the drive idle pays its latency too.
// That is the published simulator's channel, and as optimistic.
// Threads: its owner's. Never allocates.
class ReadForecast {
 public:
  struct Options {
    PlanTime deep_service{0};  // record bytes / rate at a deep queue
    PlanTime lone_service{0};  // record bytes / rate at queue depth 1
    PlanTime latency{0};       // of a drive that was idle
  };

  explicit ReadForecast(const Options& options) : options_(options) {}

  // One batch, issued at `now`, which never falls: the time that each of its reads lands, in order.
  void Read(PlanTime now, std::span<PlanTime> landed);

  [[nodiscard]] PlanTime free_at() const { return free_at_; }
  [[nodiscard]] uint64_t reads() const { return reads_; }

 private:
  Options options_;
  PlanTime free_at_{0};
  uint64_t reads_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_READ_FORECAST_H_
