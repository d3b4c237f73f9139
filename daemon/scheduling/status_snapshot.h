#ifndef MOETIER_DAEMON_SCHEDULING_STATUS_SNAPSHOT_H_
#define MOETIER_DAEMON_SCHEDULING_STATUS_SNAPSHOT_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/reason.h"
#include "daemon/scheduling/lane_kind.h"
#include "daemon/scheduling/prefetch_counts.h"

namespace moetier {

// What the core knows of itself at one moment, as plain values; transports add their sessions.
// Counters count from the daemon's start; gauges are of this moment.

struct KernelVariantSnapshot {
  std::string weight_type;  // "Q4_K"
  std::string variant;      // "prefetch 4 KiB"
};

struct CpuSnapshot {
  std::string instruction_set;
  std::vector<KernelVariantSnapshot> kernels;
  uint32_t workers = 0;
  std::vector<uint32_t> cpus;  // pinned to; empty when not
};

// The slots of one (model, size class) in a pool.
struct SizeClassSnapshot {
  ModelId model{};
  std::string model_name;
  SizeClass size_class{};
  Bytes slot_bytes;
  uint32_t slots = 0;  // = resident + loading + draining + free
  uint32_t resident = 0;
  uint32_t loading = 0;
  uint32_t draining = 0;
  uint32_t free = 0;
  uint32_t reserved = 0;  // of those resident or loading: held by calls under way
  uint32_t pinned = 0;    // of those resident or loading: pinned by an operator
  uint32_t leased = 0;    // of those resident: leased by sessions
  uint64_t hits = 0;      // per (request, expert)
  uint64_t in_flight_hits = 0;
  uint64_t misses = 0;
  uint64_t evictions = 0;
};

// One of the devices whose memory is a pool.
struct CardSnapshot {
  std::string name;
  std::string what;  // the hardware by name
  Bytes budget;
  Bytes used;  // in arenas
};

struct PoolSnapshot {
  PoolId index{};
  PoolKind kind = PoolKind::kRam;
  std::string name;
  Bytes budget;
  Bytes used;             // in arenas, empty slots included
  std::string page_size;  // "2 MiB (huge)"
  std::vector<SizeClassSnapshot> classes;
  std::vector<CardSnapshot> cards;  // of VRAM
  // Of VRAM, since the models in it were loaded.
  uint64_t copies_in = 0;        // records copied from RAM
  uint64_t failed_copies = 0;    // their experts stayed in RAM
  uint64_t written_back = 0;     // experts that left VRAM for RAM
  uint64_t dropped_victims = 0;  // experts that left VRAM; the drive has them
  Bytes double_resident_bytes;   // records whose RAM copy stays too: it is leased
};

// How a model's layers are planned, where there is a device.
struct PlanningSnapshot {
  ModelId model{};
  bool planned = true;        // false: planning lost against the simplest plan
  uint64_t trials = 0;        // pairs of blocks, one of each
  uint64_t reversions = 0;    // to the simplest plan
  uint64_t restorations = 0;  // back
  double median_ratio = 0;    // time of planned blocks over simplest ones; 0: too few trials
};

struct LaneSnapshot {
  uint32_t index = 0;
  LaneKind kind = LaneKind::kCpu;
  std::string name;
  uint64_t experts = 0;  // (request, expert) pairs computed
  uint64_t rows = 0;     // (row, pick) pairs computed
  uint64_t busy_us = 0;
  uint64_t bytes = 0;  // of records read by the kernels
};

struct ReaderSnapshot {
  std::string description;
  uint64_t reads = 0;
  uint64_t bytes = 0;
  uint64_t errors = 0;
  uint64_t cancelled = 0;
  double latency_us_p50 = 0;
  double latency_us_p99 = 0;
  uint32_t queued = 0;
  uint32_t in_flight = 0;
};

// Where the time of a model's last runs went (LayerRecord): means a run, in microseconds, and sums.
struct LayerTimesSnapshot {
  uint32_t runs = 0;
  uint64_t calls = 0;
  uint64_t rows = 0;
  double queue_us = 0;
  double plan_us = 0;
  double read_wait_us = 0;
  double compute_us = 0;
  double gpu_us = 0;
  double zero_copy_us = 0;
  double combine_us = 0;
  double total_us = 0;
  double total_us_p50 = 0;
  double total_us_p99 = 0;
  uint32_t ended_by_read = 0;
  uint32_t ended_by_compute = 0;
  uint32_t ended_by_device = 0;
  uint64_t hits = 0;
  uint64_t in_flight_hits = 0;
  uint64_t misses = 0;
  uint64_t masked_picks = 0;  // left out of sums, since the model was loaded
};

struct QuarantineSnapshot {
  ExpertKey key;
  std::string file;
  uint64_t offset = 0;
  Reason reason = Reason::kUnspecified;
  std::string message;
};

struct FallbackSnapshot {
  std::string name;
  std::string reason;
  uint64_t count = 0;
};

struct PrefetchSnapshot {
  bool enabled = false;
  PrefetchTotals totals;
  std::array<SourceCounts, kGuessSources> sources{};  // by GuessSource
};

struct StatusSnapshot {
  CpuSnapshot cpu;
  std::vector<PoolSnapshot> pools;
  std::vector<LaneSnapshot> lanes;
  std::vector<PlanningSnapshot> planning;
  ReaderSnapshot reader;
  std::map<ModelId, LayerTimesSnapshot> layer_times;
  std::vector<QuarantineSnapshot> quarantined;
  std::vector<FallbackSnapshot> fallbacks;
  std::vector<std::string> warnings;
  uint32_t queued = 0;  // calls waiting for the executor
  uint32_t queue_limit = 0;
  PrefetchSnapshot prefetch;
  PreheatTotals preheat;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_STATUS_SNAPSHOT_H_
