#include "daemon/scheduling/worker_count.h"

#include <catch2/catch.hpp>

#include "base/cpu_workers.h"

namespace moetier {

TEST_CASE("ChooseWorkers: auto is one a CPU, clamped by name on a larger host", "[scheduling]") {
  CHECK(ChooseWorkers(0, 12).workers == 12);
  CHECK(!ChooseWorkers(0, kMaxCpuWorkers).fallback);
  const WorkerCount clamped = ChooseWorkers(0, 1536);
  CHECK(clamped.workers == kMaxCpuWorkers);
  REQUIRE(clamped.fallback);
  CHECK(clamped.fallback->name == "cpu_workers:clamped");
  CHECK_THAT(clamped.fallback->reason, Catch::Contains("1536 CPUs, 1024 are the most"));
  CHECK(ChooseWorkers(3, 1536).workers == 3);
  CHECK(UsableCpus() >= 1);
}

}  // namespace moetier
