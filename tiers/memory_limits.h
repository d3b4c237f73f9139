#ifndef MOETIER_TIERS_MEMORY_LIMITS_H_
#define MOETIER_TIERS_MEMORY_LIMITS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace moetier {

// Where the host tells its limits; a test gives a folder of its own.
struct MemoryRoots {
  std::string proc = "/proc";
  std::string sys = "/sys";
};

enum class CgroupVersion : uint8_t { kV1, kV2 };

// One memory cgroup that has a limit: our own, or an ancestor.
struct CgroupLimit {
  CgroupVersion version = CgroupVersion::kV2;
  std::string path;  // the folder that sets it
  std::string file;  // "memory.max", "memory.high", "memory.limit_in_bytes"
  Bytes limit;
  Bytes usage;
  Bytes reclaimable;  // page cache within usage, which the kernel gives up under pressure
  [[nodiscard]] Bytes held() const;  // usage that the kernel cannot take back
  [[nodiscard]] Bytes room() const;
};

enum class TransparentHugePages : uint8_t { kAlways, kMadvise, kNever, kUnknown };

// A snapshot of what the host lets this process take.
struct MemoryLimits {
  Bytes total;                       // MemTotal
  Bytes available;                   // MemAvailable: free plus reclaimable, of the whole host
  std::vector<CgroupLimit> cgroups;  // from our own to the root, those with a limit only
  std::optional<Bytes> memlock;      // RLIMIT_MEMLOCK (soft); empty when unlimited
  bool may_lock_all = false;         // CAP_IPC_LOCK: memlock does not bind us
  TransparentHugePages huge_pages = TransparentHugePages::kUnknown;

  // The tightest of all: MemAvailable and each cgroup's room.
  [[nodiscard]] Bytes room() const;
};

// kUnavailable when the host's /proc/meminfo cannot be read; anything else that is missing (no
// cgroup, no huge pages) is left out.
Result<MemoryLimits> ReadMemoryLimits(const MemoryRoots& roots = {});

struct BudgetRequest {
  std::string_view what;  // names the budget in the message: "tiers.ram.bytes"
  Bytes wanted;
  Bytes reserve = 64_MiB;  // kept free for everything else of the process
  Bytes least{};           // less than this is no use: never advised
};

// Arithmetic before the first touch: beyond a limit the kernel kills, it returns no error.
// kExhausted kMemoryLimit names each limit that is too tight, its numbers, and what to change to
// what.
Status CheckBudget(const MemoryLimits& limits, const BudgetRequest& request);

// Whether `wanted` bytes may be locked; kExhausted kMemoryLimit names the limit to raise.
Status CheckMemlock(const MemoryLimits& limits, Bytes wanted);

}  // namespace moetier

#endif  // MOETIER_TIERS_MEMORY_LIMITS_H_
