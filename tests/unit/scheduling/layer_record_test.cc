#include "daemon/scheduling/layer_record.h"

#include <catch2/catch.hpp>

namespace moetier {
namespace {

LayerRecord Run(int total_us, EndedBy ended_by) {
  LayerRecord record;
  record.calls = 2;
  record.rows = 3;
  record.ended_by = ended_by;
  record.queue = std::chrono::microseconds(1);
  record.read_wait = std::chrono::microseconds(total_us - 10);
  record.compute = std::chrono::microseconds(8);
  record.gpu = std::chrono::microseconds(total_us / 2);
  record.zero_copy = std::chrono::microseconds(4);
  record.combine = std::chrono::microseconds(2);
  record.total = std::chrono::microseconds(total_us);
  record.hits = 5;
  record.misses = 1;
  return record;
}

TEST_CASE("LayerRecordRing: the last 512 runs are kept, older ones are not", "[scheduling]") {
  LayerRecordRing ring;
  CHECK(ring.records().empty());
  CHECK(SummariseRecords(ring.records()).runs == 0);
  for (int i = 0; i < 100; ++i) ring.Put(Run(5000, EndedBy::kRead));
  CHECK(ring.records().size() == 100);
  for (int i = 0; i < 512; ++i) ring.Put(Run(20, EndedBy::kCompute));
  const LayerTimesSnapshot times = SummariseRecords(ring.records());
  CHECK(times.runs == 512);
  CHECK(times.ended_by_read == 0);
  CHECK(times.total_us_p99 == 20);
}

TEST_CASE("SummariseRecords: means, quantiles and counts are those of the records",
          "[scheduling]") {
  LayerRecordRing ring;
  for (int i = 1; i <= 100; ++i)
    ring.Put(Run(100 * i, i > 60 ? EndedBy::kRead : EndedBy::kCompute));
  const LayerTimesSnapshot times = SummariseRecords(ring.records());
  CHECK(times.calls == 200);
  CHECK(times.rows == 300);
  CHECK(times.queue_us == Approx(1));
  CHECK(times.total_us == Approx(5050));
  CHECK(times.read_wait_us == Approx(5040));
  CHECK(times.compute_us == Approx(8));
  CHECK(times.gpu_us == Approx(2525));
  CHECK(times.zero_copy_us == Approx(4));
  CHECK(times.total_us_p50 == Approx(5100));
  CHECK(times.total_us_p99 == Approx(9900));
  CHECK(times.ended_by_read == 40);
  CHECK(times.ended_by_compute == 60);
  CHECK(times.hits == 500);
  CHECK(times.misses == 100);
}

}  // namespace
}  // namespace moetier
