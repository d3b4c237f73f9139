#include "daemon/ctl/status_view.h"

#include <catch2/catch.hpp>
#include <string>

namespace moetier {
namespace {

bool Has(const std::string& page, const std::string& text) {
  INFO(page);
  INFO(text);
  CHECK(page.find(text) != std::string::npos);
  return page.find(text) != std::string::npos;
}

v1::StatusReply Sample() {
  v1::StatusReply status;
  status.set_version("0.1.0");
  status.set_state(v1::DAEMON_STATE_READY);
  status.set_pid(42);
  status.set_uptime_seconds(3700);
  status.set_requests(100);
  status.set_rows(400);
  status.set_queue_limit(1024);
  status.mutable_cpu()->set_instruction_set("avx2");
  status.mutable_cpu()->set_workers(2);
  v1::PoolStatus& pool = *status.add_pools();
  pool.set_name("ram0");
  pool.set_kind(v1::POOL_KIND_RAM);
  pool.set_bytes_budget(uint64_t{4} << 20);
  pool.set_bytes_used(uint64_t{3} << 20);
  v1::SizeClassStatus& entry = *pool.add_classes();
  entry.set_model_name("demo");
  entry.set_slot_bytes(4096);
  entry.set_slots(10);
  entry.set_resident(9);
  entry.set_free(1);
  entry.set_hits(30);
  entry.set_misses(60);
  entry.set_in_flight_hits(10);
  v1::LaneStatus& lane = *status.add_lanes();
  lane.set_name("cpu");
  lane.set_experts(500);
  lane.set_busy_us(1000000);
  status.mutable_reader()->set_description("io_uring, direct");
  status.mutable_reader()->set_reads(70);
  v1::SessionStatus& session = *status.add_sessions();
  session.set_id(3);
  session.set_client("engine");
  session.set_transport("fastlane");
  session.set_requests(50);
  return status;
}

}  // namespace

TEST_CASE("RenderStatus: prefetches and the quality of their sources are shown where there are any",
          "[ctl]") {
  v1::StatusReply status = Sample();
  CHECK(RenderStatus(status).find("prefetch") == std::string::npos);
  v1::PrefetchStatus& prefetch = *status.mutable_prefetch();
  prefetch.set_enabled(true);
  prefetch.set_started(40);
  prefetch.set_used(30);
  prefetch.set_late(5);
  prefetch.set_wasted(9);
  prefetch.set_in_flight(1);
  v1::GuessSourceStatus& source = *prefetch.add_sources();
  source.set_name("router");
  source.set_calls(12);
  source.set_picks(48);
  source.set_guesses(96);
  source.set_right(36);
  source.set_absent(30);
  source.set_in_time(24);
  const std::string page = RenderStatus(status);
  Has(page, "prefetch: 40 started, 30 used (5 late), 9 wasted, 0 refused, 1 in flight\n");
  Has(page, "router         12  75.0 %     37.5 %   80.0 %      0\n");
}

TEST_CASE("RenderStatus: a preheat has a line of its own where there was one", "[ctl]") {
  v1::StatusReply status = Sample();
  CHECK(RenderStatus(status).find("preheat") == std::string::npos);
  status.mutable_preheat()->set_started(40);
  status.mutable_preheat()->set_used(30);
  status.mutable_preheat()->set_wasted(9);
  status.mutable_preheat()->set_in_flight(1);
  const std::string page = RenderStatus(status);
  Has(page, "preheat: 40 started, 30 used, 9 wasted, 1 in flight\n");
  CHECK(page.find("prefetch:") == std::string::npos);
}

TEST_CASE("RenderStatus: one status shows totals, the hit rate since the start, and no rates",
          "[ctl]") {
  const std::string page = RenderStatus(Sample());
  Has(page, "moetierd 0.1.0  ready  pid 42  up 1 h 1 min  avx2, 2 workers\n");
  Has(page, "calls 100  rows 400  queued 0 of 1024\n");
  Has(page, "ram0: 3.00 MiB of 4.00 MiB in use\n");
  Has(page, "30.0 %");
  Has(page, "NVMe io_uring, direct: 70 records");
  Has(page, "engine");
}

TEST_CASE("RenderStatus: rates are differences over the interval", "[ctl]") {
  const v1::StatusReply before = Sample();
  v1::StatusReply now = Sample();
  now.set_requests(120);
  now.set_rows(480);
  now.mutable_pools(0)->mutable_classes(0)->set_hits(33);
  now.mutable_pools(0)->mutable_classes(0)->set_misses(61);
  now.mutable_lanes(0)->set_experts(700);
  now.mutable_lanes(0)->set_busy_us(2000000);
  now.mutable_reader()->set_reads(74);
  now.mutable_sessions(0)->set_requests(60);
  const std::string page =
      RenderStatus(now, {.before = &before, .length = std::chrono::seconds(2)});
  Has(page, "calls 120 (10.0/s)  rows 480 (40.0/s)");
  Has(page, "75.0 %");   // 3 hits of 4 accesses within the interval
  Has(page, "100.0/s");  // lane experts
  Has(page, "50 %");     // busy one second of two
  Has(page, "74 records, 0 B; 2.0/s");
  Has(page, "5.0/s");  // the session's calls
}

TEST_CASE("RenderStatus: another daemon life gives no rates", "[ctl]") {
  v1::StatusReply before = Sample();
  before.set_pid(41);
  before.set_requests(1);
  const std::string page =
      RenderStatus(Sample(), {.before = &before, .length = std::chrono::seconds(1)});
  Has(page, "calls 100  rows");
}

TEST_CASE("RenderStatus: a device's pool says what moved, and whether planning pays", "[ctl]") {
  v1::StatusReply status = Sample();
  v1::PoolStatus& pool = *status.add_pools();
  pool.set_index(1);
  pool.set_name("card");
  pool.set_kind(v1::POOL_KIND_VRAM);
  pool.set_copies_in(12);
  pool.set_written_back(5);
  pool.set_dropped_victims(2);
  pool.set_double_resident_bytes(3u << 20);
  pool.add_classes()->set_model_name("demo");
  v1::ModelStatus& model = *status.add_models();
  model.mutable_model()->set_name("demo");
  v1::PlanningStatus& planning = *model.mutable_planning();
  planning.set_planned(false);
  planning.set_trials(30);
  planning.set_reversions(1);
  planning.set_median_ratio(1.07);
  const std::string page = RenderStatus(status);
  Has(page,
      "  12 records copied in, 5 copied back to RAM, 2 overwritten, 3.00 MiB leased in RAM too\n");
  Has(page,
      "planning demo: given up, since it was slower, 30 trials, planned blocks take 1.07 of the "
      "others' time, given up 1 times\n");
  CHECK(RenderStatus(Sample()).find("planning") == std::string::npos);
}

TEST_CASE("RenderStatus: slots that clients asked to map are counted, and refusals by reason",
          "[ctl]") {
  v1::StatusReply status = Sample();
  CHECK(RenderStatus(status).find("map them") == std::string::npos);
  v1::ExportStatus& exports = *status.mutable_exports();
  exports.set_exported(3);
  Has(RenderStatus(status), "\n3 slots given to clients that map them\n");
  v1::ReasonCount& untrusted = *exports.add_refused();
  untrusted.set_reason(v1::REASON_BAD_CONFIG);
  untrusted.set_count(2);
  v1::ReasonCount& ended = *exports.add_refused();
  ended.set_reason(v1::REASON_UNKNOWN_LEASE);
  ended.set_count(1);
  Has(RenderStatus(status),
      "\n3 slots given to clients that map them; refused: BAD_CONFIG 2, UNKNOWN_LEASE 1\n");
}

TEST_CASE("RenderStatus: several devices of a pool have a line each", "[ctl]") {
  v1::StatusReply status = Sample();
  v1::PoolStatus& pool = *status.add_pools();
  pool.set_name("gpu0+gpu1");
  pool.set_kind(v1::POOL_KIND_VRAM);
  v1::CardStatus& first = *pool.add_cards();
  first.set_name("gpu0");
  first.set_what("NVIDIA RTX 3090, GPU-1");
  first.set_bytes_budget(20u << 20);
  first.set_bytes_used(5u << 20);
  CHECK(RenderStatus(status).find("RTX 3090") == std::string::npos);
  pool.add_cards()->set_name("gpu1");
  const std::string page = RenderStatus(status);
  Has(page, "  gpu0: 5.00 MiB of 20.0 MiB in use, NVIDIA RTX 3090, GPU-1\n");
  Has(page, "  gpu1: ");
}

TEST_CASE("RenderStatus: faults, quarantine, fallbacks and warnings are shown", "[ctl]") {
  v1::StatusReply status = Sample();
  v1::ReasonCount& fault = *status.add_faults();
  fault.set_reason(v1::REASON_BAD_ROWS);
  fault.set_count(3);
  v1::ReasonCount& failure = *status.add_faults();
  failure.set_reason(v1::REASON_CHECKSUM);
  failure.set_count(1);
  v1::ModelStatus& model = *status.add_models();
  model.mutable_model()->set_name("demo");
  v1::QuarantinedExpert& expert = *model.add_quarantined();
  expert.set_layer(2);
  expert.set_expert(7);
  expert.set_file("/s/data");
  expert.set_offset(4096);
  expert.set_message("checksum differs");
  v1::Fallback& fallback = *status.add_fallbacks();
  fallback.set_name("direct_io");
  fallback.set_reason("Invalid argument");
  fallback.set_count(1);
  status.add_warnings("the tier is\nsmall");
  const std::string page = RenderStatus(status);
  Has(page, "  refused or failed: BAD_ROWS 3, CHECKSUM 1\n");
  Has(page, "quarantined: demo blk.2 expert 7 at 4096 of /s/data: checksum differs\n");
  Has(page, "fallback: direct_io (1): Invalid argument\n");
  Has(page, "warning: the tier is?small\n");
}

TEST_CASE("RenderStatus: an empty status of a starting daemon is a page too", "[ctl]") {
  Has(RenderStatus(v1::StatusReply()), "no session");
}

}  // namespace moetier
