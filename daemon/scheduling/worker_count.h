#ifndef MOETIER_DAEMON_SCHEDULING_WORKER_COUNT_H_
#define MOETIER_DAEMON_SCHEDULING_WORKER_COUNT_H_

#include <cstdint>
#include <optional>

#include "base/fallback.h"

namespace moetier {

// The CPUs that this process may run on.
uint32_t UsableCpus();

// How many threads compute.
struct WorkerCount {
  uint32_t workers = 1;
  std::optional<Fallback> fallback;  // there are more CPUs than can be used
};

// `asked` 0: one for each of `usable_cpus`, at most kMaxCpuWorkers.
WorkerCount ChooseWorkers(uint32_t asked, uint32_t usable_cpus);

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_WORKER_COUNT_H_
