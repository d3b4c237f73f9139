#ifndef MOETIER_TIERS_ARENA_H_
#define MOETIER_TIERS_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/fallback.h"
#include "base/ids.h"
#include "base/result.h"
#include "tiers/arena_plan.h"
#include "tiers/memory_limits.h"

namespace moetier {

// Private: anonymous, ours alone. Shared: engines may map slots (not in this version).
enum class ArenaMemory : uint8_t { kPrivate, kShared };

// The largest page to try. Each falls back to the next, with a name: 1 GiB and 2 MiB pages come
// from the host's hugetlb pool, transparent ones from madvise, small ones are 4 KiB.
enum class PageSize : uint8_t { k1GiB, k2MiB, kTransparent, kSmall };

// Whether the memory is locked. kPreferred falls back to pageable memory, with a name; kRequired
// makes the refusal an error.
enum class Pinning : uint8_t { kPageable, kPreferred, kRequired };

struct ArenaOptions {
  std::string_view what = "tiers.ram.bytes";  // the budget's name in messages
  ArenaMemory memory = ArenaMemory::kPrivate;
  PageSize pages = PageSize::kTransparent;
  Pinning pinning = Pinning::kPageable;
  Bytes reserve = 64_MiB;  // kept free beside the arena when limits are compared
  MemoryRoots roots{};
  // Called on the creating thread as memory is populated, at the end with done == total. Its
  // answer: whether to go on.
  std::function<bool(Bytes done, Bytes total)> on_progress{};
};

// The slots of one (model, pool): one block of memory, populated when it is made, cut into regions
// of equal slots by size class, with an inaccessible page on either side.
// Threads:  immutable after Create; who may touch a slot's bytes is the ledger's matter.
// Lifetime: the destructor gives the memory back; no read or lease may be left. No fork after it:
//           the block is not inherited (MADV_DONTFORK).
class Arena {
 public:
  // Compares limits, then maps and touches every page. kMemoryLimit names the limit to raise;
  // kMemoryLimit also when memory must be locked and may not;
  // kCancelled when on_progress says so; shared memory is kUnimplemented, kNotYet. A plan of zero
  // bytes makes an arena without memory.
  static Result<std::unique_ptr<Arena>> Create(const ArenaPlan& plan, const ArenaOptions& options);

  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // The whole slot; its address is a multiple of kRecordAlignment.
  [[nodiscard]] std::span<std::byte> Slot(SizeClass size_class, SlotIndex slot) const;

  [[nodiscard]] const ArenaPlan& plan() const { return plan_; }
  [[nodiscard]] Bytes size() const { return Bytes(size_); }
  [[nodiscard]] Bytes pinned_bytes() const { return pinned_bytes_; }
  // "transparent 2 MiB pages for 98 %", as /proc/self/smaps had it after populating.
  [[nodiscard]] const std::string& page_size() const { return page_size_; }
  [[nodiscard]] const std::vector<Fallback>& fallbacks() const { return fallbacks_; }

 private:
  explicit Arena(const ArenaPlan& plan) : plan_(plan) {}

  Status Map(const ArenaOptions& options);
  Status Populate(const ArenaOptions& options);
  Status Pin(const MemoryLimits& limits);
  void NamePageSize(const ArenaOptions& options, const MemoryLimits& limits);

  const ArenaPlan plan_;
  void* reservation_ = nullptr;  // the block and what lies around it, inaccessible
  size_t reservation_size_ = 0;
  std::byte* base_ = nullptr;
  size_t size_ = 0;
  PageSize pages_ = PageSize::kSmall;
  Bytes pinned_bytes_;
  std::string page_size_;
  std::vector<Fallback> fallbacks_;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_ARENA_H_
