#ifndef MOETIER_TIERS_RESIDENCY_LEDGER_H_
#define MOETIER_TIERS_RESIDENCY_LEDGER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"

namespace moetier {

enum class WaveId : uint64_t {};

// One transfer in flight; the generation proves that the slot is still its own.
struct Ticket {
  uint64_t sequence = 0;
  SlotIndex slot{};
  uint32_t generation = 0;
  friend bool operator==(const Ticket&, const Ticket&) = default;
};

// How a wave's key stood when the wave was granted.
enum class Resolution : uint8_t { kHit, kInFlight, kMiss };

// Where a newly loaded expert enters the eviction order: large batches enter cold, so that they do
// not push out the decode hot set.
enum class Admission : uint8_t { kHot, kCold };

// Events. -----------------------------------------------------------------------------------------
// Asks for all keys (distinct, 1..slot_count) at once. Waves are granted in order; one that cannot
// have all its slots waits holding none, and those behind it wait too.
struct ReserveWave {
  WaveId wave{};
  std::span<const ExpertKey> keys;
  Admission admission = Admission::kHot;
};
// Gives the wave's reservations back, granted or not, landed or not: reads that nobody else waits
// for are cancelled, and their slots drain until the completion arrives.
struct ReleaseWave {
  WaveId wave{};
};
// The bytes are in the slot and checked.
struct ReadLanded {
  Ticket ticket;
};
// The read failed for good (the loader has retried), or ended because it was cancelled.
struct ReadEnded {
  Ticket ticket;
  enum class Why : uint8_t { kFailed, kCancelled } why = Why::kFailed;
};
// The expert's bytes on disk were mended: it may be loaded again.
struct LiftQuarantine {
  ExpertKey key;
};
using LedgerEvent = std::variant<ReserveWave, ReleaseWave, ReadLanded, ReadEnded, LiftQuarantine>;

// Commands. ---------------------------------------------------------------------------------------
struct StartRead {
  Ticket ticket;
  ExpertKey key;
};
struct CancelRead {
  Ticket ticket;
};
// Key `index` of the wave is resident in `slot` and stays so until the wave is released. Each key
// of a granted wave gets exactly one KeyReady or KeyFailed.
struct KeyReady {
  WaveId wave{};
  uint32_t index = 0;
  SlotIndex slot{};
  Resolution resolution = Resolution::kHit;
};
// The key is quarantined: its bytes cannot be had.
struct KeyFailed {
  WaveId wave{};
  uint32_t index = 0;
};
using LedgerCommand = std::variant<StartRead, CancelRead, KeyReady, KeyFailed>;
using CommandList = std::vector<LedgerCommand>;

}  // namespace moetier

#endif  // MOETIER_TIERS_RESIDENCY_LEDGER_H_
