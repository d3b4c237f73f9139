#ifndef MOETIER_TIERS_ARENA_H_
#define MOETIER_TIERS_ARENA_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/fallback.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "tiers/arena_plan.h"
#include "tiers/memory_limits.h"
#include "tiers/memory_pages.h"
#include "tiers/shared_memory.h"
#include "tiers/slot_memory.h"

namespace moetier {

// Private: anonymous, ours alone. Shared: engines may map the slots, to read; its size is fixed.
enum class ArenaMemory : uint8_t { kPrivate, kShared };

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

// The slots of one (model, pool): regions of equal slots by size class in one reservation of
// addresses, with inaccessible pages on either side. Memory is populated when it is made. The
// addresses suffice for a slot a record, so that memory can be given back and taken slot by slot
// while others are in use; not so when it is shared, with pages of the hugetlb pool, or where the
// host refuses the addresses (fallback memory_growth:none).
// Threads:  any may ask; GiveBack and Take are one thread's at a time. Who may touch a slot's bytes
//           is the ledger's matter.
// Lifetime: the destructor gives the memory back; no read or lease may be left. Shared memory goes
//           back when the last client has unmapped it too. No fork after it: the block is not
//           inherited (MADV_DONTFORK).
class Arena final : public SlotMemory {
 public:
  // Compares limits, then maps and touches every page. kMemoryLimit names the limit to raise;
  // kMemoryLimit also when memory must be locked and may not; kCancelled when on_progress says so;
  // kBadConfig for shared memory of the hugetlb pool's pages. A plan of zero bytes makes an arena
  // without memory.
  static Result<std::unique_ptr<Arena>> Create(const ArenaPlan& plan, const ArenaOptions& options);

  ~Arena() override;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  [[nodiscard]] uint32_t Places(SizeClass size_class) const override;
  // Whether memory can be given back; else why not.
  [[nodiscard]] Status CheckResizable() const;
  // To the host.
  void GiveBack(SizeClass size_class, SlotIndex slot) override;
  // Populated, and locked if the arena is. kMemoryLimit when the host refuses. The caller has
  // compared the limits.
  Status Take(SizeClass size_class, SlotIndex first, uint32_t count) override;

  // The whole slot; its address is a multiple of kRecordAlignment.
  [[nodiscard]] std::span<std::byte> Slot(SizeClass size_class, SlotIndex slot) const;

  // Of the slot's first byte, from the arena's start.
  [[nodiscard]] uint64_t Offset(SizeClass size_class, SlotIndex slot) const;

  // A descriptor through which size() bytes from the arena's start can be mapped to read, and
  // nothing can be written. Does not block. kFailedPrecondition, kBadConfig when the memory is not
  // shared.
  [[nodiscard]] Result<UniqueFd> OpenReadOnly() const;

  [[nodiscard]] const ArenaPlan& plan() const { return plan_; }
  // Populated, at this moment.
  [[nodiscard]] Bytes size() const { return Bytes(size_.load(std::memory_order_relaxed)); }
  [[nodiscard]] Bytes pinned_bytes() const {
    return Bytes(pinned_bytes_.load(std::memory_order_relaxed));
  }
  // "transparent 2 MiB pages for 98 %", as /proc/self/smaps had it after populating.
  [[nodiscard]] const std::string& page_size() const { return page_size_; }
  [[nodiscard]] const std::vector<Fallback>& fallbacks() const { return fallbacks_; }

 private:
  // Where a class's slots lie, and how many there are addresses for.
  struct Region {
    uint64_t offset = 0;
    uint64_t slot_bytes = 0;
    uint32_t places = 0;
  };
  // A run of memory that is mapped at the start.
  struct Part {
    std::byte* begin = nullptr;
    size_t size = 0;
  };

  explicit Arena(const ArenaPlan& plan) : plan_(plan) {}

  Status Map(const ArenaOptions& options);
  Status MapShared(const ArenaOptions& options);
  [[nodiscard]] bool ReserveWide(const ArenaOptions& options);
  Status ReserveClose(const ArenaOptions& options);
  [[nodiscard]] std::byte* Reserve(size_t size, size_t margin);
  Status MapParts(const ArenaOptions& options);
  void UsePages(std::byte* begin, size_t size);
  Status Populate(const ArenaOptions& options);
  Status Pin(const MemoryLimits& limits);
  void NamePageSize(const ArenaOptions& options, const MemoryLimits& limits);
  [[nodiscard]] std::string SmallPagesReason(const MemoryLimits& limits) const;
  [[nodiscard]] const Region& Checked(SizeClass size_class, SlotIndex slot) const;

  const ArenaPlan plan_;
  void* reservation_ = nullptr;  // the block and what lies around it, inaccessible
  size_t reservation_size_ = 0;
  std::byte* base_ = nullptr;
  std::vector<Region> regions_;  // by size class
  std::vector<Part> parts_;
  std::optional<SharedMemory> shared_;  // none: the memory is private
  int collapse_error_ = 0;              // the first errno of making large pages of shared ones
  // Relaxed: gauges for the status, which order nothing.
  std::atomic<size_t> size_{0};
  std::atomic<size_t> pinned_bytes_{0};
  PageSize pages_ = PageSize::kSmall;
  bool grows_ = false;  // there are addresses beyond the plan's slots
  std::string page_size_;
  std::vector<Fallback> fallbacks_;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_ARENA_H_
