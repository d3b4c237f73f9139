#ifndef MOETIER_BASE_CPU_WORKERS_H_
#define MOETIER_BASE_CPU_WORKERS_H_

#include <cstdint>

namespace moetier {

// The most threads that compute: what the configuration allows is what the CPU lane can count.
inline constexpr uint32_t kMaxCpuWorkers = 1024;

}  // namespace moetier

#endif  // MOETIER_BASE_CPU_WORKERS_H_
