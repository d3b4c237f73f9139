#include "daemon/ctl/status_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text_size.h"
#include "daemon/ctl/progress_line.h"
#include "daemon/ctl/reason_text.h"
#include "daemon/ctl/text_table.h"

namespace moetier {
namespace {

// Differences of counters over one interval; absent without an earlier status of the same life.
class Rates {
 public:
  Rates(const v1::StatusReply& now, const StatusInterval& interval) {
    const v1::StatusReply* const before = interval.before;
    const bool same_life = before != nullptr && interval.length.count() > 0 &&
                           before->pid() == now.pid() &&
                           before->uptime_seconds() <= now.uptime_seconds();
    if (!same_life) return;
    before_ = before;
    seconds_ = interval.length.count();
  }

  [[nodiscard]] const v1::StatusReply* before() const { return before_; }

  // Per second; none without an interval or when the counter went back (another model, say).
  [[nodiscard]] std::optional<double> Of(uint64_t now, uint64_t before) const {
    if (before_ == nullptr || now < before) return std::nullopt;
    return static_cast<double>(now - before) / seconds_;
  }

 private:
  const v1::StatusReply* before_ = nullptr;
  double seconds_ = 0;
};

std::string PerSecond(std::optional<double> rate) {
  return rate ? fmt::format("{:.1f}/s", *rate) : "";
}

std::string BytesPerSecond(std::optional<double> rate) {
  if (!rate) return "";
  return FormatSize(Bytes(static_cast<uint64_t>(std::max(0.0, *rate)))) + "/s";
}

std::string Percentage(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string StateText(v1::DaemonState state) {
  switch (state) {
    case v1::DAEMON_STATE_STARTING:
      return "starting";
    case v1::DAEMON_STATE_READY:
      return "ready";
    case v1::DAEMON_STATE_DRAINING:
      return "draining";
    default:
      return "unknown state";
  }
}

std::string InBrackets(const std::string& text) {
  return text.empty() ? "" : fmt::format(" ({})", text);
}

// "INTRO BAD_ROWS 3, QUOTA 1"; empty where there are none.
std::string Reasons(std::string_view intro,
                    const google::protobuf::RepeatedPtrField<v1::ReasonCount>& counts) {
  std::string text;
  for (const v1::ReasonCount& entry : counts) {
    text += fmt::format("{}{} {}", text.empty() ? intro : ", ", ReasonText(entry.reason()),
                        entry.count());
  }
  return text;
}

std::string Header(const v1::StatusReply& now, const Rates& rates) {
  const v1::StatusReply* const before = rates.before();
  const auto rate = [&](uint64_t value, uint64_t earlier) {
    return InBrackets(PerSecond(rates.Of(value, earlier)));
  };
  std::string text = fmt::format("moetierd {}  {}  pid {}  up {}  {}, {} workers\n",
                                 WithoutControls(now.version()), StateText(now.state()), now.pid(),
                                 FormatDuration(std::chrono::seconds(now.uptime_seconds())),
                                 WithoutControls(now.cpu().instruction_set()), now.cpu().workers());
  text +=
      fmt::format("calls {}{}  rows {}{}  queued {} of {}", now.requests(),
                  rate(now.requests(), before ? before->requests() : 0), now.rows(),
                  rate(now.rows(), before ? before->rows() : 0), now.queued(), now.queue_limit());
  return text + Reasons("  refused or failed: ", now.faults()) + "\n";
}

// Nothing where no client has asked to map a slot.
std::string Exports(const v1::StatusReply& now) {
  const v1::ExportStatus& exports = now.exports();
  if (exports.exported() == 0 && exports.refused().empty()) return "";
  return fmt::format("{} slots given to clients that map them{}\n", exports.exported(),
                     Reasons("; refused: ", exports.refused()));
}

const v1::SizeClassStatus* FindClass(const v1::StatusReply* status, uint32_t pool,
                                     const v1::SizeClassStatus& wanted) {
  if (status == nullptr) return nullptr;
  for (const v1::PoolStatus& candidate : status->pools()) {
    if (candidate.index() != pool) continue;
    for (const v1::SizeClassStatus& entry : candidate.classes()) {
      if (entry.model() == wanted.model() && entry.size_class() == wanted.size_class()) {
        return &entry;
      }
    }
  }
  return nullptr;
}

// Of the interval if there is one and it saw accesses, else since the start.
std::string HitRate(const v1::SizeClassStatus& now, const v1::SizeClassStatus* before) {
  uint64_t hits = now.hits();
  uint64_t all = now.hits() + now.in_flight_hits() + now.misses();
  if (before != nullptr) {
    const uint64_t all_before = before->hits() + before->in_flight_hits() + before->misses();
    if (all > all_before && hits >= before->hits()) {
      hits -= before->hits();
      all -= all_before;
    }
  }
  return Percentage(hits, all);
}

std::string Copies(const v1::PoolStatus& vram) {
  std::string text = fmt::format("  {} records copied in, {} copied back to RAM, {} overwritten",
                                 vram.copies_in(), vram.written_back(), vram.dropped_victims());
  if (vram.double_resident_bytes() > 0) {
    text += fmt::format(", {} leased in RAM too", FormatSize(Bytes(vram.double_resident_bytes())));
  }
  if (vram.failed_copies() > 0) text += fmt::format(", {} copies failed", vram.failed_copies());
  return text + "\n";
}

std::string Planning(const v1::StatusReply& now) {
  std::string text;
  for (const v1::ModelStatus& model : now.models()) {
    if (!model.has_planning()) continue;
    const v1::PlanningStatus& planning = model.planning();
    text +=
        fmt::format("planning {}: {}, {} trials", WithoutControls(model.model().name()),
                    planning.planned() ? "on" : "given up, since it was slower", planning.trials());
    if (planning.median_ratio() > 0) {
      text +=
          fmt::format(", planned blocks take {:.2f} of the others' time", planning.median_ratio());
    }
    text += planning.reversions() > 0 ? fmt::format(", given up {} times\n", planning.reversions())
                                      : "\n";
  }
  return text;
}

// Of a pool over several devices, a line each.
std::string Cards(const v1::PoolStatus& pool) {
  std::string lines;
  for (const v1::CardStatus& card : pool.cards()) {
    lines += fmt::format("  {}: {} of {} in use, {}\n", WithoutControls(card.name()),
                         FormatSize(Bytes(card.bytes_used())),
                         FormatSize(Bytes(card.bytes_budget())), WithoutControls(card.what()));
  }
  return lines;
}

std::string Pools(const v1::StatusReply& now, const Rates& rates) {
  TextTable table({{"POOL"},
                   {"MODEL"},
                   {"SLOT", Align::kRight},
                   {"SLOTS", Align::kRight},
                   {"RESIDENT", Align::kRight},
                   {"LOADING", Align::kRight},
                   {"FREE", Align::kRight},
                   {"PINNED", Align::kRight},
                   {"LEASED", Align::kRight},
                   {"HITS", Align::kRight},
                   {"MISSES", Align::kRight},
                   {"EVICTIONS", Align::kRight},
                   {"HIT RATE", Align::kRight}});
  std::string sums;
  for (const v1::PoolStatus& pool : now.pools()) {
    sums +=
        fmt::format("{}: {} of {} in use{}\n", WithoutControls(pool.name()),
                    FormatSize(Bytes(pool.bytes_used())), FormatSize(Bytes(pool.bytes_budget())),
                    pool.page_size().empty() ? "" : ", pages " + WithoutControls(pool.page_size()));
    if (pool.cards_size() > 1) sums += Cards(pool);
    if (pool.kind() == v1::POOL_KIND_VRAM) sums += Copies(pool);
    for (const v1::SizeClassStatus& entry : pool.classes()) {
      table.AddRow({pool.name(), entry.model_name(), FormatSize(Bytes(entry.slot_bytes())),
                    fmt::to_string(entry.slots()), fmt::to_string(entry.resident()),
                    fmt::to_string(entry.loading() + entry.draining()),
                    fmt::to_string(entry.free()), fmt::to_string(entry.pinned()),
                    fmt::to_string(entry.leased()), fmt::to_string(entry.hits()),
                    fmt::to_string(entry.misses() + entry.in_flight_hits()),
                    fmt::to_string(entry.evictions()),
                    HitRate(entry, FindClass(rates.before(), pool.index(), entry))});
    }
  }
  return sums + (table.empty() ? "" : table.Render());
}

std::string Lanes(const v1::StatusReply& now, const Rates& rates) {
  TextTable table({{"LANE"},
                   {"EXPERTS", Align::kRight},
                   {"ROWS", Align::kRight},
                   {"EXPERTS/S", Align::kRight},
                   {"BYTES/S", Align::kRight},
                   {"BUSY", Align::kRight}});
  for (const v1::LaneStatus& lane : now.lanes()) {
    const v1::LaneStatus* before = nullptr;
    if (rates.before() != nullptr) {
      for (const v1::LaneStatus& candidate : rates.before()->lanes()) {
        if (candidate.index() == lane.index()) before = &candidate;
      }
    }
    const auto busy = before ? rates.Of(lane.busy_us(), before->busy_us()) : std::nullopt;
    table.AddRow(
        {lane.name(), fmt::to_string(lane.experts()), fmt::to_string(lane.rows()),
         before ? PerSecond(rates.Of(lane.experts(), before->experts())) : "",
         before ? BytesPerSecond(rates.Of(lane.bytes(), before->bytes())) : "",
         busy ? fmt::format("{:.0f} %", std::min(100.0, *busy / 1e4)) : ""});  // us a second
  }
  return table.empty() ? "" : "\n" + table.Render();
}

// Where the time of the last runs went: GPU and ZERO-COPY stand beside the others, which add up.
std::string Times(const v1::StatusReply& now) {
  TextTable table({{"LAYER RUNS OF"},
                   {"LAST", Align::kRight},
                   {"QUEUE", Align::kRight},
                   {"PLAN", Align::kRight},
                   {"READS", Align::kRight},
                   {"COMPUTE", Align::kRight},
                   {"GPU", Align::kRight},
                   {"ZERO-COPY", Align::kRight},
                   {"COMBINE", Align::kRight},
                   {"P50", Align::kRight},
                   {"P99", Align::kRight},
                   {"ENDED BY READS", Align::kRight},
                   {"BY DEVICE", Align::kRight}});
  for (const v1::ModelStatus& model : now.models()) {
    const v1::LayerTimes& recent = model.recent();
    if (recent.runs() == 0) continue;
    const auto us = [](double time) { return fmt::format("{:.0f} us", time); };
    table.AddRow({model.model().name(), fmt::to_string(recent.runs()), us(recent.queue_us()),
                  us(recent.plan_us()), us(recent.read_wait_us()), us(recent.compute_us()),
                  us(recent.gpu_us()), us(recent.zero_copy_us()), us(recent.combine_us()),
                  us(recent.total_us_p50()), us(recent.total_us_p99()),
                  Percentage(recent.ended_by_read(), recent.runs()),
                  Percentage(recent.ended_by_device(), recent.runs())});
  }
  return table.empty() ? "" : "\n" + table.Render();
}

std::string Reader(const v1::StatusReply& now, const Rates& rates) {
  const v1::ReaderStatus& reader = now.reader();
  std::optional<double> reads = reader.reads_per_second();
  std::optional<double> bytes = reader.bytes_per_second();
  if (const v1::StatusReply* before = rates.before()) {
    reads = rates.Of(reader.reads(), before->reader().reads());
    bytes = rates.Of(reader.bytes(), before->reader().bytes());
  }
  return fmt::format(
      "\nNVMe {}: {} records, {}; {}, {}; latency p50 {:.0f} us, p99 {:.0f} us; {} in flight, {} "
      "queued, {} cancelled, {} errors\n",
      WithoutControls(reader.description()), reader.reads(), FormatSize(Bytes(reader.bytes())),
      PerSecond(reads), BytesPerSecond(bytes), reader.latency_us_p50(), reader.latency_us_p99(),
      reader.in_flight(), reader.queued(), reader.cancelled(), reader.errors());
}

// How many of those that have landed or were joined a call could use without waiting.
std::string Prefetch(const v1::StatusReply& now) {
  const v1::PrefetchStatus& prefetch = now.prefetch();
  if (!prefetch.enabled() && prefetch.started() == 0) return "";
  std::string text = fmt::format(
      "\nprefetch: {} started, {} used ({} late), {} wasted, {} refused, {} in flight\n",
      prefetch.started(), prefetch.used(), prefetch.late(), prefetch.wasted(), prefetch.refused(),
      prefetch.in_flight());
  TextTable table({{"GUESSES OF"},
                   {"CALLS", Align::kRight},
                   {"RECALL", Align::kRight},
                   {"PRECISION", Align::kRight},
                   {"IN TIME", Align::kRight},
                   {"STALE", Align::kRight}});
  for (const v1::GuessSourceStatus& source : prefetch.sources()) {
    table.AddRow({source.name(), fmt::to_string(source.calls()),
                  Percentage(source.right(), source.picks()),
                  Percentage(source.right(), source.guesses()),
                  Percentage(source.in_time(), source.absent()), fmt::to_string(source.stale())});
  }
  return text + (table.empty() ? "" : table.Render());
}

std::string Preheat(const v1::StatusReply& now) {
  const v1::PreheatStatus& preheat = now.preheat();
  if (preheat.started() == 0) return "";
  return fmt::format("\npreheat: {} started, {} used, {} wasted, {} in flight\n", preheat.started(),
                     preheat.used(), preheat.wasted(), preheat.in_flight());
}

std::string Sessions(const v1::StatusReply& now, const Rates& rates) {
  TextTable table({{"SESSION", Align::kRight},
                   {"CLIENT"},
                   {"MODEL"},
                   {"VIA"},
                   {"IN FLIGHT", Align::kRight},
                   {"CALLS", Align::kRight},
                   {"CALLS/S", Align::kRight},
                   {"ROWS", Align::kRight},
                   {"FAULTS", Align::kRight},
                   {"AGE", Align::kRight}});
  for (const v1::SessionStatus& session : now.sessions()) {
    std::optional<double> rate;
    if (rates.before() != nullptr) {
      for (const v1::SessionStatus& before : rates.before()->sessions()) {
        if (before.id() == session.id()) rate = rates.Of(session.requests(), before.requests());
      }
    }
    table.AddRow({fmt::to_string(session.id()), session.client(), session.model_name(),
                  session.transport(), fmt::to_string(session.in_flight()),
                  fmt::to_string(session.requests()), PerSecond(rate),
                  fmt::to_string(session.rows()), fmt::to_string(session.faults()),
                  FormatDuration(std::chrono::seconds(session.age_seconds()))});
  }
  return table.empty() ? "\nno session\n" : "\n" + table.Render();
}

std::string Troubles(const v1::StatusReply& now) {
  std::string text;
  for (const v1::ModelStatus& model : now.models()) {
    for (const v1::QuarantinedExpert& expert : model.quarantined()) {
      text += fmt::format("quarantined: {} blk.{} expert {} at {} of {}: {}\n",
                          WithoutControls(model.model().name()), expert.layer(), expert.expert(),
                          expert.offset(), WithoutControls(expert.file()),
                          WithoutControls(expert.message()));
    }
  }
  for (const v1::Fallback& fallback : now.fallbacks()) {
    text += fmt::format("fallback: {} ({}): {}\n", WithoutControls(fallback.name()),
                        fallback.count(), WithoutControls(fallback.reason()));
  }
  for (const std::string& warning : now.warnings()) {
    text += fmt::format("warning: {}\n", WithoutControls(warning));
  }
  return text.empty() ? "" : "\n" + text;
}

}  // namespace

std::string RenderStatus(const v1::StatusReply& now, const StatusInterval& interval) {
  const Rates rates(now, interval);
  return Header(now, rates) + "\n" + Pools(now, rates) + Exports(now) + Lanes(now, rates) +
         Planning(now) + Times(now) + Reader(now, rates) + Prefetch(now) + Preheat(now) +
         Sessions(now, rates) + Troubles(now);
}

}  // namespace moetier
