#include "tiers/memory_limits.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/support/fake_host.h"

namespace moetier {
namespace {

constexpr const char* kUnlimitedV1 = "9223372036854771712";

}  // namespace

TEST_CASE("field_18: a v2 container's limit counts, not the host's memory, without its page cache",
          "[tiers]") {
  FakeHost host;
  host.Write("proc/self/cgroup", "0::/box/moetier\n");
  // 16 GiB, of which 15 are used; 12 of those are warm page cache.
  host.WriteGroupV2("/box/moetier", "17179869184", "max", "16106127360",
                    "anon 3221225472\nfile 12884901888\ninactive_file 8589934592\n"
                    "active_file 4294967296\nslab_reclaimable 0\n");
  const MemoryLimits limits = host.Limits();
  CHECK(limits.total == 128_GiB);
  CHECK(limits.available == 120_GiB);
  REQUIRE(limits.cgroups.size() == 1);
  CHECK(limits.cgroups[0].version == CgroupVersion::kV2);
  CHECK(limits.room() == 13_GiB);

  CHECK(CheckBudget(limits, {"tiers.ram.bytes", 12_GiB, 1_GiB}).has_value());
  const Status refused = CheckBudget(limits, {"tiers.ram.bytes", 12_GiB, 1025_MiB});
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code == ErrorCode::kExhausted);
  CHECK(refused.error().reason == Reason::kMemoryLimit);
  CHECK(refused.error().message ==
        "tiers.ram.bytes: 12.0 GiB wanted and 1.00 GiB kept free, but cgroup " +
            host.path("sys/fs/cgroup/box/moetier") +
            " has room for 13.0 GiB (memory.max 16.0 GiB less 15.0 GiB used plus 12.0 GiB "
            "reclaimable cache): raise MemoryMax/MemoryHigh of the unit, or the container's "
            "memory limit, to 16385MiB; or lower tiers.ram.bytes to 12287MiB");
}

TEST_CASE("field_18: a v1 container's limit counts, not the host's memory, without its page cache",
          "[tiers]") {
  FakeHost host;
  host.Write("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/docker/abc\n0::/\n");
  host.WriteGroupV1("", kUnlimitedV1, "99999999999", "");
  host.WriteGroupV1("/docker", kUnlimitedV1, "99999999999", "");
  host.WriteGroupV1("/docker/abc", "17179869184", "16106127360",
                    "cache 1\ninactive_file 2\nhierarchical_memory_limit 17179869184\n"
                    "total_inactive_file 8589934592\ntotal_active_file 4294967296\n");
  const MemoryLimits limits = host.Limits();
  REQUIRE(limits.cgroups.size() == 1);
  CHECK(limits.cgroups[0].version == CgroupVersion::kV1);
  CHECK(limits.cgroups[0].file == "memory.limit_in_bytes");
  CHECK(limits.room() == 13_GiB);
}

TEST_CASE("ReadMemoryLimits: an ancestor's tighter limit counts", "[tiers]") {
  FakeHost host;
  host.Write("proc/self/cgroup", "0::/user.slice/user-1000.slice/moetier.service\n");
  host.WriteGroupV2("/user.slice/user-1000.slice/moetier.service", "max", "max", "1048576", "");
  host.WriteGroupV2("/user.slice/user-1000.slice", "8589934592", "max", "1073741824", "");
  host.WriteGroupV2("/user.slice", "max", "4294967296", "1073741824", "");
  const MemoryLimits limits = host.Limits();
  REQUIRE(limits.cgroups.size() == 2);
  CHECK(limits.room() == 3_GiB);
  CHECK(limits.cgroups[1].file == "memory.high");
}

TEST_CASE("ReadMemoryLimits: v2 beside v1 is found under unified", "[tiers]") {
  FakeHost host;
  host.Write("proc/self/cgroup", "0::/g\n");
  host.WriteGroupV2("/unified/g", "1073741824", "max", "0", "");
  CHECK(host.Limits().room() == 1_GiB);
}

TEST_CASE("ReadMemoryLimits: a container's own mount counts where its path leads outside",
          "[tiers]") {
  FakeHost host;
  host.Write("proc/self/cgroup", "4:memory:/docker/abc\n0::/../../elsewhere\n");
  // Only the group's own folder is mounted, as the root; a limit above it shows in memory.stat.
  host.WriteGroupV1("", "8589934592", "1073741824", "hierarchical_memory_limit 4294967296\n");
  const MemoryLimits limits = host.Limits();
  REQUIRE(limits.cgroups.size() == 1);
  CHECK(limits.cgroups[0].file == "memory.stat hierarchical_memory_limit");
  CHECK(limits.room() == 3_GiB);
}

TEST_CASE("ReadMemoryLimits: usage above the limit leaves no room, not a huge one", "[tiers]") {
  FakeHost host;
  host.Write("proc/self/cgroup", "0::/g\n");
  host.WriteGroupV2("/g", "1000", "max", "5000", "inactive_file 18446744073709551615\n");
  CHECK(host.Limits().room() == 1000_B);  // all of it is cache, it says
  host.WriteGroupV2("/g", "1000", "max", "5000", "inactive_file 100\n");
  CHECK(host.Limits().room() == 0_B);
}

TEST_CASE("ReadMemoryLimits: a host without cgroups has the limits of /proc/meminfo", "[tiers]") {
  const FakeHost host;
  const MemoryLimits limits = host.Limits();
  CHECK(limits.cgroups.empty());
  CHECK(limits.room() == 120_GiB);
  CHECK(!limits.memlock);
  CHECK(!limits.may_lock_all);
  CHECK(limits.huge_pages == TransparentHugePages::kUnknown);
}

TEST_CASE("ReadMemoryLimits: a host that does not tell its memory is an error", "[tiers]") {
  const FakeHost host;
  const MemoryRoots roots{.proc = host.path("proc"), .sys = host.path("sys")};
  CHECK(!ReadMemoryLimits({.proc = host.path("absent"), .sys = host.path("sys")}).has_value());
  host.Write("proc/meminfo", "MemTotal: 5 kB\n");
  CHECK(ReadMemoryLimits(roots).error().code == ErrorCode::kUnavailable);
  host.Write("proc/meminfo", "MemTotal: 5 kB\nMemAvailable: 18446744073709551615 kB\n");
  CHECK(ReadMemoryLimits(roots).error().code == ErrorCode::kUnavailable);
}

TEST_CASE("ReadMemoryLimits: this host's limits can be read", "[tiers]") {
  const Result<MemoryLimits> limits = ReadMemoryLimits();
  REQUIRE(limits.has_value());
  CHECK(limits->room() > 0_B);
  CHECK(limits->room() <= limits->available);
  CHECK(limits->available <= limits->total);
}

TEST_CASE("ReadMemoryLimits: the transparent huge page setting is the one in brackets", "[tiers]") {
  FakeHost host;
  host.Write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  CHECK(host.Limits().huge_pages == TransparentHugePages::kMadvise);
  host.Write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  CHECK(host.Limits().huge_pages == TransparentHugePages::kNever);
}

TEST_CASE("CheckBudget: the host's own memory is a limit too", "[tiers]") {
  MemoryLimits limits;
  limits.total = 16_GiB;
  limits.available = 10_GiB;
  CHECK(CheckBudget(limits, {"tiers.ram.bytes", 9_GiB, 1_GiB}).has_value());
  CHECK(CheckBudget(limits, {"tiers.ram.bytes", 0_B, 99_GiB}).has_value());
  CHECK(CheckBudget(limits, {"tiers.ram.bytes", 12_GiB, 1_GiB}).error().message ==
        "tiers.ram.bytes: 12.0 GiB wanted and 1.00 GiB kept free, but the host has 10.0 GiB "
        "available of 16.0 GiB (MemAvailable): stop other programs that hold 3072MiB; or lower "
        "tiers.ram.bytes to 9216MiB");
  CHECK(!CheckBudget(limits, {"tiers.ram.bytes", Bytes(UINT64_MAX), 1_GiB}).has_value());
}

TEST_CASE("CheckBudget: what is advised would be taken", "[tiers]") {
  MemoryLimits limits;
  limits.total = 16_GiB;
  limits.available = 2_GiB;
  limits.cgroups.push_back({.path = "/box",
                            .file = "memory.max",
                            .limit = 1_GiB,
                            .usage = 1_GiB,
                            .reclaimable = 40_MiB});
  BudgetRequest request{"models[m].ram", 5_GiB, 64_MiB, 944_KiB};
  // No room at all: nothing to lower to, and what the limit must be.
  CHECK_THAT(CheckBudget(limits, request).error().message,
             Catch::Contains("memory limit, to 6168MiB;") && !Catch::Contains("lower models") &&
                 Catch::EndsWith("models[m].ram takes 1MiB at least"));
  limits.cgroups[0].limit = Bytes(6168) * (1_MiB).count();
  CHECK_THAT(CheckBudget(limits, request).error().message, !Catch::Contains("/box"));
  limits.available = 64_MiB + 944_KiB;
  CHECK_THAT(CheckBudget(limits, request).error().message,
             Catch::EndsWith("or lower models[m].ram to 944KiB"));
  request.wanted = 944_KiB;
  CHECK(CheckBudget(limits, request).has_value());
  limits.available = 64_MiB + 943_KiB;
  CHECK_THAT(CheckBudget(limits, request).error().message, !Catch::Contains("lower"));
}

TEST_CASE("field_19: a memlock limit of 64 KiB is named with what to raise", "[tiers]") {
  FakeHost host;
  host.Write("proc/self/limits",
             "Limit                     Soft Limit           Hard Limit           Units     \n"
             "Max locked memory         65536                65536                bytes     \n");
  host.Write("proc/thread-self/status", "Name:\tmoetierd\nCapEff:\t0000000000000000\n");
  MemoryLimits limits = host.Limits();
  CHECK(limits.memlock == 64_KiB);
  CHECK(CheckMemlock(limits, 64_KiB).has_value());
  const Status refused = CheckMemlock(limits, 1_GiB);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().reason == Reason::kMemoryLimit);
  CHECK(refused.error().message ==
        "1.00 GiB to lock, but the limit of locked memory is 64.0 KiB: raise LimitMEMLOCK of the "
        "unit (or `ulimit -l`, /etc/security/limits.conf) to 1048576 KiB or infinity");

  host.Write("proc/thread-self/status", "Name:\tmoetierd\nCapEff:\t0000000000004000\n");
  CHECK(CheckMemlock(host.Limits(), 1_GiB).has_value());  // CAP_IPC_LOCK
  host.Write("proc/self/limits", "Max locked memory         unlimited  unlimited  bytes\n");
  CHECK(!host.Limits().memlock);
}

}  // namespace moetier
