#include "daemon/scheduling/status_collector.h"

#include <chrono>
#include <string>

namespace moetier {
namespace {

SizeClassSnapshot DescribeClass(const LoadedModel& model, size_t index) {
  const LedgerCounts counts = model.ledgers[index]->counts();
  SizeClassSnapshot snapshot;
  snapshot.model = model.id;
  snapshot.model_name = model.name;
  snapshot.size_class = SizeClass{static_cast<uint8_t>(index)};
  snapshot.slot_bytes = model.geometry->size_classes[index].slot_bytes;
  snapshot.slots = model.ledgers[index]->place_count() - counts.retired;
  snapshot.resident = counts.resident;
  snapshot.loading = counts.loading;
  snapshot.draining = counts.draining;
  snapshot.free = counts.free;
  snapshot.reserved = counts.reserved;
  snapshot.pinned = model.pinned[index];
  snapshot.leased = model.kept_in_ram[index].leased;
  snapshot.hits = counts.hits;
  snapshot.in_flight_hits = counts.in_flight;
  snapshot.misses = counts.misses;
  snapshot.evictions = counts.evictions;
  return snapshot;
}

SizeClassSnapshot DescribeVramClass(const LoadedModel& model, size_t index) {
  const ResidencyLedger& ledger = model.vram->ledger(SizeClass{static_cast<uint8_t>(index)});
  const LedgerCounts counts = ledger.counts();
  SizeClassSnapshot snapshot;
  snapshot.model = model.id;
  snapshot.model_name = model.name;
  snapshot.size_class = SizeClass{static_cast<uint8_t>(index)};
  snapshot.slot_bytes = model.geometry->size_classes[index].slot_bytes;
  snapshot.slots = ledger.slot_count();
  snapshot.resident = counts.resident;
  snapshot.loading = counts.loading;
  snapshot.draining = counts.draining;
  snapshot.free = counts.free;
  snapshot.reserved = counts.reserved;
  snapshot.hits = counts.hits;
  snapshot.in_flight_hits = counts.in_flight;
  snapshot.leased = model.kept_in_vram[index].leased;
  snapshot.misses = model.vram->absent(index);
  snapshot.evictions = counts.evictions;
  return snapshot;
}

void AddVram(const LoadedModel& model, PoolSnapshot& pool) {
  pool.used += model.vram->size();
  for (size_t i = 0; i < model.vram->class_count(); ++i) {
    pool.classes.push_back(DescribeVramClass(model, i));
  }
  const VramPool::Counters& counters = model.vram->counters();
  pool.copies_in += counters.copies_in;
  pool.failed_copies += counters.failed_copies;
  pool.written_back += counters.written_back;
  pool.dropped_victims += counters.dropped_victims;
}

void CollectDevice(const LayerExecutor::View& view, StatusSnapshot& snapshot) {
  if (view.device == nullptr) return;
  const DeviceDescription& device = view.device->description();
  PoolSnapshot pool;
  pool.index = kDevicePool;
  pool.kind = PoolKind::kVram;
  pool.name = device.name;
  pool.budget = device.budget;
  for (const Device* card : view.device->cards()) {
    const DeviceDescription& is = card->description();
    pool.cards.push_back(
        {.name = is.name, .what = is.what, .budget = is.budget, .used = is.budget - card->free()});
  }
  for (const auto& [id, model] : view.models) {
    if (model->vram) AddVram(*model, pool);
    pool.double_resident_bytes += view.desk.DoubleResident(*model);
    if (model->planning) {
      const PlanCheck& check = model->planning->check();
      snapshot.planning.push_back({.model = id,
                                   .planned = check.choice() == PlanArm::kPlanned,
                                   .trials = check.trials(),
                                   .reversions = check.reversions(),
                                   .restorations = check.restorations(),
                                   .median_ratio = check.median_ratio().value_or(0)});
    }
  }
  snapshot.pools.push_back(std::move(pool));
  if (view.device_lost) {
    snapshot.fallbacks.push_back(
        {.name = "device:lost", .reason = view.device_lost->message, .count = 1});
  }
}

// The CPU's alone, or with those of the device, each at the index of its kind.
void CollectLanes(const LayerExecutor::View& view, StatusSnapshot& snapshot) {
  const auto add = [&](LaneKind kind, std::string name) {
    const LaneCounters& counters = view.lanes[Raw(kind)];
    const auto busy = std::chrono::duration_cast<std::chrono::microseconds>(counters.busy);
    snapshot.lanes.push_back({.index = Raw(kind),
                              .kind = kind,
                              .name = std::move(name),
                              .experts = counters.experts,
                              .rows = counters.rows,
                              .busy_us = static_cast<uint64_t>(busy.count()),
                              .bytes = counters.bytes});
  };
  add(LaneKind::kCpu, "cpu");
  if (view.device == nullptr) return;
  const std::string& device = view.device->description().name;
  add(LaneKind::kZeroCopy, device + " zero-copy");
  add(LaneKind::kGpu, device);
}

QuarantineSnapshot DescribeQuarantine(const LoadedModel& model, const ExpertKey& key,
                                      const Error& error) {
  const ExtentList extents = model.store->Locate(key.layer, key.expert);
  QuarantineSnapshot snapshot;
  snapshot.key = key;
  snapshot.file = model.store->files()[extents.extents[0].file].path;
  snapshot.offset = extents.extents[0].offset;
  snapshot.reason = error.reason;
  snapshot.message = error.message;
  return snapshot;
}

void AddPrefetches(const LedgerCounts& counts, PrefetchTotals& totals) {
  totals.started += counts.prefetched;
  totals.used += counts.prefetch_used;
  totals.late += counts.prefetch_late;
  totals.wasted += counts.prefetch_wasted;
  totals.refused += counts.prefetch_refused;
  totals.in_flight += counts.prefetching - counts.preheating;
}

void AddPreheats(const LedgerCounts& counts, PreheatTotals& totals) {
  totals.started += counts.preheated;
  totals.used += counts.preheat_used;
  totals.wasted += counts.preheat_wasted;
  totals.in_flight += counts.preheating;
}

void CollectPrefetch(const LayerExecutor::View& view, PrefetchSnapshot& snapshot,
                     PreheatTotals& preheat) {
  snapshot.enabled = view.prefetcher.options().enabled;
  for (const auto& [id, model] : view.models) {
    for (const auto& ledger : model->ledgers) {
      const LedgerCounts counts = ledger->counts();
      AddPrefetches(counts, snapshot.totals);
      AddPreheats(counts, preheat);
    }
  }
  for (size_t i = 0; i < kGuessSources; ++i) {
    snapshot.sources[i] = view.prefetcher.counts(static_cast<GuessSource>(i));
  }
}

}  // namespace

void CollectModels(const LayerExecutor::View& view, StatusSnapshot& snapshot) {
  PoolSnapshot ram;
  ram.kind = PoolKind::kRam;
  ram.name = "ram0";
  for (const auto& [id, model] : view.models) {
    ram.budget += model->budget;
    snapshot.layer_times[id] = SummariseRecords(model->records.records());
    snapshot.layer_times[id].masked_picks = model->masked_picks;
    ram.used += model->arena->size();
    ram.page_size = model->arena->page_size();
    for (size_t i = 0; i < model->ledgers.size(); ++i) {
      ram.classes.push_back(DescribeClass(*model, i));
    }
    for (const auto& [key, error] : model->quarantine) {
      snapshot.quarantined.push_back(DescribeQuarantine(*model, key, error));
    }
    for (const std::string& warning : model->warnings) snapshot.warnings.push_back(warning);
    if (auto below = BelowWorkingSet(*model)) snapshot.warnings.push_back(*std::move(below));
    if (model->misses == MissRule::kMask) {
      snapshot.warnings.push_back(
          fmt::format("model {} is not exact (exact: mask): {} picks were left out of results",
                      model->name, model->masked_picks));
    }
    for (const auto& fallbacks : {model->fallbacks, model->arena->fallbacks()}) {
      for (const Fallback& fallback : fallbacks) {
        snapshot.fallbacks.push_back(
            {.name = fallback.name, .reason = fallback.reason, .count = 1});
      }
    }
  }
  snapshot.pools.push_back(std::move(ram));
  CollectDevice(view, snapshot);
  CollectLanes(view, snapshot);
  snapshot.queued = view.queued;
  CollectPrefetch(view, snapshot.prefetch, snapshot.preheat);
}

ReaderSnapshot DescribeReader(const RecordReader& reader) {
  const ReaderStats stats = reader.stats();
  ReaderSnapshot snapshot;
  snapshot.description = reader.description();
  snapshot.reads = stats.reads;
  snapshot.bytes = stats.bytes;
  snapshot.errors = stats.errors;
  snapshot.cancelled = stats.cancelled;
  snapshot.latency_us_p50 = stats.read_latency_us_p50;
  snapshot.latency_us_p99 = stats.read_latency_us_p99;
  snapshot.queued = stats.queued;
  snapshot.in_flight = stats.in_flight;
  return snapshot;
}

CpuSnapshot DescribeCpu(const kernels::ExpertKernels& kernels, uint32_t workers) {
  CpuSnapshot snapshot;
  snapshot.instruction_set = kernels::InstructionSetName(kernels.instruction_set());
  snapshot.workers = workers;
  return snapshot;
}

}  // namespace moetier
