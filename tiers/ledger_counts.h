#ifndef MOETIER_TIERS_LEDGER_COUNTS_H_
#define MOETIER_TIERS_LEDGER_COUNTS_H_

#include <cstdint>

namespace moetier {

// What a ResidencyLedger counts. Gauges are of this moment, counters count from creation.
struct LedgerCounts {
  // Slots: free + loading + resident + draining + retired = place_count.
  uint32_t free = 0;
  uint32_t loading = 0;
  uint32_t resident = 0;
  uint32_t draining = 0;
  uint32_t retired = 0;
  uint32_t reserved = 0;     // of those resident or loading: held by any wave
  uint32_t held = 0;         // of those reserved: by waves of Tenure::kHeld or leases
  uint32_t prefetching = 0;  // of those loading: no wave has joined yet
  uint32_t preheating = 0;   // of those prefetching: preheats
  uint32_t waiting_waves = 0;
  uint32_t granted_waves = 0;  // not yet released
  uint32_t quarantined = 0;    // keys
  // Per (wave of Tenure::kCall, key), as it stood at the grant.
  uint64_t hits = 0;
  uint64_t in_flight = 0;  // late: the read was under way for another wave
  uint64_t misses = 0;
  uint64_t failed = 0;  // quarantined already
  uint64_t evictions = 0;
  uint64_t dropped = 0;  // given up by DropKey
  uint64_t cancelled_reads = 0;
  uint64_t restarted_reads = 0;  // ended as cancelled though nobody had cancelled them
  uint64_t kept_reads = 0;       // landed after their cancel and were kept
  uint64_t refused_tickets = 0;  // stale or unknown completions
  // Prefetches started = used + wasted + those loading or resident that no wave has named yet.
  uint64_t prefetched = 0;
  uint64_t prefetch_used = 0;     // named by a granted wave
  uint64_t prefetch_late = 0;     // of these, while still loading
  uint64_t prefetch_wasted = 0;   // evicted, cancelled or failed before that
  uint64_t prefetch_refused = 0;  // not started for want of room
  // Likewise of preheats, which are none of those above.
  uint64_t preheated = 0;
  uint64_t preheat_used = 0;
  uint64_t preheat_wasted = 0;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_LEDGER_COUNTS_H_
