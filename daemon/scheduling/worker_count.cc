#include "daemon/scheduling/worker_count.h"

#include <fmt/core.h>
#include <sched.h>

#include <cerrno>
#include <vector>

#include "base/cpu_workers.h"

namespace moetier {

uint32_t UsableCpus() {
  // The kernel refuses a mask smaller than its own with EINVAL: a cpu_set_t has room for 1024.
  constexpr size_t kMostSets = 64;
  for (size_t sets = 1; sets <= kMostSets; sets *= 2) {
    std::vector<cpu_set_t> allowed(sets);
    const size_t bytes = sets * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, allowed.data()) == 0) {
      return static_cast<uint32_t>(CPU_COUNT_S(bytes, allowed.data()));
    }
    if (errno != EINVAL) break;
  }
  return 1;
}

WorkerCount ChooseWorkers(uint32_t asked, uint32_t usable_cpus) {
  if (asked != 0) return {.workers = asked, .fallback = {}};
  if (usable_cpus <= kMaxCpuWorkers) return {.workers = usable_cpus, .fallback = {}};
  return {.workers = kMaxCpuWorkers,
          .fallback = Fallback{
              "cpu_workers:clamped",
              fmt::format("this process may use {} CPUs, {} are the most that compute; run a "
                          "daemon for each NUMA node to use them all",
                          usable_cpus, kMaxCpuWorkers)}};
}

}  // namespace moetier
