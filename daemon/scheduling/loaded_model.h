#ifndef MOETIER_DAEMON_SCHEDULING_LOADED_MODEL_H_
#define MOETIER_DAEMON_SCHEDULING_LOADED_MODEL_H_

#include <array>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/fallback.h"
#include "base/ids.h"
#include "base/result.h"
#include "daemon/scheduling/layer_record.h"
#include "daemon/scheduling/model_planning.h"
#include "daemon/scheduling/preheat.h"
#include "daemon/scheduling/residency_calls.h"
#include "daemon/scheduling/router_predictor.h"
#include "daemon/scheduling/vram_pool.h"
#include "tiers/arena.h"
#include "tiers/device/shown_slots.h"
#include "tiers/heat_book.h"
#include "tiers/nvme/record_reader.h"
#include "tiers/residency_ledger.h"
#include "tiers/store/expert_store.h"

namespace moetier {

// When a landed record is compared with its checksum.
enum class LandingCheck : uint8_t { kAlways, kFirst, kNever };

// Slots of a size class in a pool that sessions keep from calls, each counted once.
struct KeptSlots {
  uint32_t leased = 0;
  uint32_t kept = 0;  // leased, or needed by an unfinished transfer
};
using KeptByClass = std::array<KeptSlots, kMaxSizeClasses>;

// One model in memory: its store, its arena, one ledger a size class, and what happened to it.
// Threads: built by whoever loads it; once added, the executor's alone.
struct LoadedModel {
  [[nodiscard]] bool MustVerify(const ExpertKey& key) const;
  // No read, copy or run uses its memory.
  [[nodiscard]] bool AtRest() const { return reads_in_flight == 0 && device_work == 0; }
  // The record landed after the check that MustVerify asked for.
  void NoteVerified(const ExpertKey& key);
  // RAM slots of a class that are left for calls: the reservations of two.
  [[nodiscard]] uint32_t SlotsForCalls() const { return 2 * geometry->top_k; }
  // How many more of the class may be pinned or kept.
  [[nodiscard]] uint32_t RamRoom(SizeClass size_class) const;
  // Slots in all pools, less two calls' reservations.
  [[nodiscard]] Bytes LeasableBytes() const;
  [[nodiscard]] KeptByClass& KeptIn(PoolId pool) {
    return pool == kRamPool ? kept_in_ram : kept_in_vram;
  }
  [[nodiscard]] const KeptByClass& KeptIn(PoolId pool) const {
    return pool == kRamPool ? kept_in_ram : kept_in_vram;
  }

  ModelId id{};
  std::string name;
  std::shared_ptr<const ModelGeometry> geometry;  // shared with validation in daemon/rpc
  std::unique_ptr<ExpertStore> store;
  std::vector<FileId> files;  // the reader's ids of store->files()
  std::unique_ptr<Arena> arena;
  std::vector<std::unique_ptr<ResidencyLedger>> ledgers;  // per size class
  std::vector<uint32_t> pinned;                           // slots held by pins, per size class
  KeptByClass kept_in_ram{};
  KeptByClass kept_in_vram{};
  std::unique_ptr<ShownSlots> shown;              // null: no device reads the arena
  std::unique_ptr<VramPool> vram;                 // null: no slots on a device
  std::unique_ptr<ModelPlanning> planning;        // null: there is no device to plan for
  std::shared_ptr<const RouterPredictor> router;  // null: none. Shared with guesses under way
  std::unique_ptr<HeatBook> heat;
  Preheat preheat;
  bool preheats = true;  // free slots are filled with the hottest experts

  Bytes budget;
  std::vector<std::pair<SizeClass, SlotIndex>> retired;  // slots whose memory may be given back
  std::vector<std::string> warnings;
  std::vector<Fallback> fallbacks;  // of its store; the arena knows its own

  MissRule misses = MissRule::kStall;
  uint64_t masked_picks = 0;    // left out of sums, since the load
  std::set<ExpertKey> filling;  // left out, and being read since
  LandingCheck landing_check = LandingCheck::kFirst;
  std::map<LayerIndex, std::vector<bool>> verified;  // per expert: checked once in this life
  std::map<ExpertKey, Error> quarantine;
  uint32_t reads_in_flight = 0;
  LayerRecordRing records;
  uint32_t device_work = 0;  // copies and runs under way

  // Set when the model is to be handed back as soon as it is idle.
  std::shared_ptr<std::promise<std::unique_ptr<LoadedModel>>> removed;
};

// Set while the model's RAM holds less than one token's experts, by its budget of now: under
// recency such a tier gives almost no hits.
std::optional<std::string> BelowWorkingSet(const LoadedModel& model);

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_LOADED_MODEL_H_
