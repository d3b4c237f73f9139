#include "daemon/rpc/status_report.h"

#include <unistd.h>

#include <chrono>
#include <map>

#include "daemon/rpc/model_messages.h"
#include "daemon/transport/wire_text.h"

namespace moetier {
namespace {

using std::chrono::duration_cast;

// Two observers that ask at once share one rate instead of dividing by next to nothing.
constexpr auto kMinRateInterval = std::chrono::milliseconds(100);

void FillCpu(const CpuSnapshot& cpu, v1::CpuStatus& message) {
  message.set_instruction_set(cpu.instruction_set);
  message.set_workers(cpu.workers);
  for (const uint32_t number : cpu.cpus) message.add_cpus(number);
  for (const KernelVariantSnapshot& kernel : cpu.kernels) {
    v1::KernelVariant& entry = *message.add_kernels();
    entry.set_weight_type(kernel.weight_type);
    entry.set_variant(kernel.variant);
  }
}

void FillSizeClass(const SizeClassSnapshot& slots, v1::SizeClassStatus& message) {
  message.set_model(Raw(slots.model));
  message.set_model_name(WireText(slots.model_name));
  message.set_size_class(Raw(slots.size_class));
  message.set_slot_bytes(slots.slot_bytes.count());
  message.set_slots(slots.slots);
  message.set_resident(slots.resident);
  message.set_loading(slots.loading);
  message.set_draining(slots.draining);
  message.set_free(slots.free);
  message.set_reserved(slots.reserved);
  message.set_pinned(slots.pinned);
  message.set_hits(slots.hits);
  message.set_in_flight_hits(slots.in_flight_hits);
  message.set_misses(slots.misses);
  message.set_evictions(slots.evictions);
  message.set_leased(slots.leased);
}

void FillCard(const CardSnapshot& card, v1::CardStatus& message) {
  message.set_name(card.name);
  message.set_what(card.what);
  message.set_bytes_budget(card.budget.count());
  message.set_bytes_used(card.used.count());
}

void FillPool(const PoolSnapshot& pool, v1::PoolStatus& message) {
  message.set_index(Raw(pool.index));
  message.set_kind(ToProto(pool.kind));
  message.set_name(pool.name);
  message.set_bytes_budget(pool.budget.count());
  message.set_bytes_used(pool.used.count());
  message.set_page_size(pool.page_size);
  for (const SizeClassSnapshot& slots : pool.classes) FillSizeClass(slots, *message.add_classes());
  message.set_copies_in(pool.copies_in);
  message.set_failed_copies(pool.failed_copies);
  message.set_written_back(pool.written_back);
  message.set_dropped_victims(pool.dropped_victims);
  message.set_double_resident_bytes(pool.double_resident_bytes.count());
  for (const CardSnapshot& card : pool.cards) FillCard(card, *message.add_cards());
}

void FillPlanning(const PlanningSnapshot& planning, v1::PlanningStatus& message) {
  message.set_planned(planning.planned);
  message.set_trials(planning.trials);
  message.set_reversions(planning.reversions);
  message.set_restorations(planning.restorations);
  message.set_median_ratio(planning.median_ratio);
}

void FillLane(const LaneSnapshot& lane, v1::LaneStatus& message) {
  message.set_index(lane.index);
  message.set_kind(ToProto(lane.kind));
  message.set_name(lane.name);
  message.set_experts(lane.experts);
  message.set_rows(lane.rows);
  message.set_busy_us(lane.busy_us);
  message.set_bytes(lane.bytes);
}

void FillLayerTimes(const LayerTimesSnapshot& times, v1::LayerTimes& message) {
  message.set_runs(times.runs);
  message.set_calls(times.calls);
  message.set_rows(times.rows);
  message.set_queue_us(times.queue_us);
  message.set_plan_us(times.plan_us);
  message.set_read_wait_us(times.read_wait_us);
  message.set_compute_us(times.compute_us);
  message.set_gpu_us(times.gpu_us);
  message.set_zero_copy_us(times.zero_copy_us);
  message.set_combine_us(times.combine_us);
  message.set_total_us(times.total_us);
  message.set_total_us_p50(times.total_us_p50);
  message.set_total_us_p99(times.total_us_p99);
  message.set_ended_by_read(times.ended_by_read);
  message.set_ended_by_compute(times.ended_by_compute);
  message.set_ended_by_device(times.ended_by_device);
  message.set_masked_picks(times.masked_picks);
  message.set_hits(times.hits);
  message.set_in_flight_hits(times.in_flight_hits);
  message.set_misses(times.misses);
}

void FillNotes(const StatusSnapshot& core, v1::StatusReply& reply) {
  for (const FallbackSnapshot& fallback : core.fallbacks) {
    v1::Fallback& entry = *reply.add_fallbacks();
    entry.set_name(fallback.name);
    entry.set_reason(WireText(fallback.reason));
    entry.set_count(fallback.count);
  }
  for (const std::string& warning : core.warnings) reply.add_warnings(WireText(warning));
}

void FillReasons(const std::map<Reason, uint64_t>& counts,
                 google::protobuf::RepeatedPtrField<v1::ReasonCount>& message) {
  for (const auto& [reason, count] : counts) {
    v1::ReasonCount& entry = *message.Add();
    entry.set_reason(ToProto(reason));
    entry.set_count(count);
  }
}

void FillTotals(const ReplyCounters::Totals& totals, v1::StatusReply& reply) {
  reply.set_requests(totals.all.requests);
  reply.set_rows(totals.all.rows);
  FillReasons(totals.faults, *reply.mutable_faults());
  reply.mutable_exports()->set_exported(totals.exported_slots);
  FillReasons(totals.refused_exports, *reply.mutable_exports()->mutable_refused());
}

void FillPrefetch(const PrefetchSnapshot& prefetch, v1::PrefetchStatus& message) {
  message.set_enabled(prefetch.enabled);
  message.set_started(prefetch.totals.started);
  message.set_used(prefetch.totals.used);
  message.set_late(prefetch.totals.late);
  message.set_wasted(prefetch.totals.wasted);
  message.set_refused(prefetch.totals.refused);
  message.set_in_flight(prefetch.totals.in_flight);
  for (size_t i = 0; i < kGuessSources; ++i) {
    const SourceCounts& counts = prefetch.sources[i];
    if (counts.calls == 0 && counts.stale == 0) continue;
    v1::GuessSourceStatus& source = *message.add_sources();
    source.set_name(std::string(GuessSourceName(static_cast<GuessSource>(i))));
    source.set_calls(counts.calls);
    source.set_picks(counts.picks);
    source.set_guesses(counts.guesses);
    source.set_right(counts.right);
    source.set_absent(counts.absent);
    source.set_in_time(counts.in_time);
    source.set_stale(counts.stale);
  }
}

void FillPreheat(const PreheatTotals& totals, v1::PreheatStatus& message) {
  message.set_started(totals.started);
  message.set_used(totals.used);
  message.set_wasted(totals.wasted);
  message.set_in_flight(totals.in_flight);
}

}  // namespace

v1::StatusReply StatusReport::Make() {
  const StatusSnapshot core = context_.core.Snapshot();
  v1::StatusReply reply;
  reply.set_version(context_.version);
  const auto uptime = context_.clock.Now() - context_.started;
  reply.set_uptime_seconds(
      static_cast<uint64_t>(duration_cast<std::chrono::seconds>(uptime).count()));
  reply.set_pid(static_cast<uint32_t>(getpid()));
  reply.set_state(context_.sessions.draining() ? v1::DAEMON_STATE_DRAINING
                                               : v1::DAEMON_STATE_READY);
  FillCpu(core.cpu, *reply.mutable_cpu());
  for (const PoolSnapshot& pool : core.pools) FillPool(pool, *reply.add_pools());
  for (const LaneSnapshot& lane : core.lanes) FillLane(lane, *reply.add_lanes());
  FillReader(core.reader, *reply.mutable_reader());
  FillModels(core, reply);
  FillSessions(reply);
  FillNotes(core, reply);
  FillPrefetch(core.prefetch, *reply.mutable_prefetch());
  FillPreheat(core.preheat, *reply.mutable_preheat());
  for (const std::string& warning : context_.warnings()) reply.add_warnings(WireText(warning));
  FillTotals(context_.counters.totals(), reply);
  reply.set_queued(core.queued);
  reply.set_queue_limit(core.queue_limit);
  return reply;
}

void StatusReport::FillReader(const ReaderSnapshot& reader, v1::ReaderStatus& message) {
  message.set_description(WireText(reader.description));
  message.set_reads(reader.reads);
  message.set_bytes(reader.bytes);
  message.set_errors(reader.errors);
  message.set_cancelled(reader.cancelled);
  message.set_latency_us_p50(reader.latency_us_p50);
  message.set_latency_us_p99(reader.latency_us_p99);
  message.set_queued(reader.queued);
  message.set_in_flight(reader.in_flight);

  const TimePoint now = context_.clock.Now();
  const MutexLock lock(mu_);
  if (last_.at == TimePoint{}) last_.at = context_.started;
  const auto passed = now - last_.at;
  if (passed >= kMinRateInterval && reader.reads >= last_.reads && reader.bytes >= last_.bytes) {
    const double seconds = std::chrono::duration<double>(passed).count();
    last_ = {.at = now,
             .reads = reader.reads,
             .bytes = reader.bytes,
             .reads_per_second = static_cast<double>(reader.reads - last_.reads) / seconds,
             .bytes_per_second = static_cast<double>(reader.bytes - last_.bytes) / seconds};
  }
  message.set_reads_per_second(last_.reads_per_second);
  message.set_bytes_per_second(last_.bytes_per_second);
}

void StatusReport::FillModels(const StatusSnapshot& core, v1::StatusReply& reply) const {
  const ReplyCounters::Totals totals = context_.counters.totals();
  for (const ModelInfo& model : context_.core.ListModels()) {
    v1::ModelStatus& entry = *reply.add_models();
    *entry.mutable_model() = ToProto(model);
    for (const QuarantineSnapshot& expert : core.quarantined) {
      if (expert.key.model == model.id) *entry.add_quarantined() = ToProto(expert);
    }
    if (const auto times = core.layer_times.find(model.id); times != core.layer_times.end()) {
      FillLayerTimes(times->second, *entry.mutable_recent());
    }
    for (const PlanningSnapshot& planning : core.planning) {
      if (planning.model == model.id) FillPlanning(planning, *entry.mutable_planning());
    }
    const auto counts = totals.models.find(model.id);
    if (counts == totals.models.end()) continue;
    entry.set_requests(counts->second.requests);
    entry.set_rows(counts->second.rows);
    entry.set_faults(counts->second.faults);
  }
}

void StatusReport::FillSessions(v1::StatusReply& reply) const {
  const TimePoint now = context_.clock.Now();
  for (const std::shared_ptr<const SessionRecord>& session : context_.book.sessions()) {
    const SessionRecord::Counters& counters = session->counters;
    v1::SessionStatus& entry = *reply.add_sessions();
    entry.set_id(Raw(session->id));
    entry.set_client(WireText(session->client));
    entry.set_model(Raw(session->model));
    entry.set_model_name(WireText(session->model_name));
    entry.set_transport(session->transport);
    entry.set_in_flight(counters.in_flight.load(std::memory_order_relaxed));
    entry.set_requests(counters.requests.load(std::memory_order_relaxed));
    entry.set_rows(counters.rows.load(std::memory_order_relaxed));
    entry.set_faults(counters.faults.load(std::memory_order_relaxed));
    entry.set_age_seconds(
        static_cast<uint64_t>(duration_cast<std::chrono::seconds>(now - session->since).count()));
    entry.set_since_unix_ms(
        duration_cast<std::chrono::milliseconds>(session->wall_since.time_since_epoch()).count());
  }
}

}  // namespace moetier
