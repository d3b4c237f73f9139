#include "daemon/ctl/doctor_report.h"

#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/as_nobody.h"
#include "tests/support/temp_folder.h"

namespace moetier {
namespace {

MemoryLimits Roomy() {
  MemoryLimits limits;
  limits.total = 64_GiB;
  limits.available = 32_GiB;
  limits.huge_pages = TransparentHugePages::kMadvise;
  return limits;
}

Finding Named(const std::vector<Finding>& findings, const std::string& name) {
  const auto found = std::ranges::find(findings, name, &Finding::name);
  REQUIRE(found != findings.end());
  return *found;
}

}  // namespace

TEST_CASE("CheckKernel: old kernels and strange names are warned of", "[ctl]") {
  CHECK(CheckKernel("6.1.0-13-amd64").verdict == Verdict::kOk);
  CHECK(CheckKernel("5.10.0").verdict == Verdict::kOk);
  CHECK(CheckKernel("5.4.0-150").verdict == Verdict::kWarn);
  CHECK(CheckKernel("4.19").verdict == Verdict::kWarn);
  CHECK(CheckKernel("unknown").verdict == Verdict::kWarn);
  CHECK(CheckKernel("").verdict == Verdict::kWarn);
}

TEST_CASE("CheckMemory: a roomy host is all ok", "[ctl]") {
  CHECK(Worst(CheckMemory(Roomy())) == Verdict::kOk);
}

TEST_CASE("CheckMemory: too little memory fails, and a limit says what to raise", "[ctl]") {
  MemoryLimits none = Roomy();
  none.available = 32_MiB;
  CHECK(Named(CheckMemory(none), "memory").verdict == Verdict::kFail);

  MemoryLimits limited = Roomy();
  limited.cgroups.push_back({.version = CgroupVersion::kV1,
                             .path = "/sys/fs/cgroup/memory/x",
                             .file = "memory.limit_in_bytes",
                             .limit = 2_GiB,
                             .usage = 1900_MiB,
                             .reclaimable = 100_MiB});
  const Finding cgroup = Named(CheckMemory(limited), "cgroup");
  CHECK(cgroup.verdict == Verdict::kWarn);
  CHECK(cgroup.what.find("v1: memory.limit_in_bytes = 2.00 GiB") != std::string::npos);
  CHECK(cgroup.advice.find("MemoryMax") != std::string::npos);
}

TEST_CASE("CheckMemory: a small memlock and no huge pages are warned of", "[ctl]") {
  MemoryLimits limits = Roomy();
  limits.memlock = 8_MiB;
  limits.huge_pages = TransparentHugePages::kNever;
  CHECK(Named(CheckMemory(limits), "memlock").verdict == Verdict::kWarn);
  CHECK(Named(CheckMemory(limits), "huge pages").verdict == Verdict::kWarn);
  limits.may_lock_all = true;
  CHECK(Named(CheckMemory(limits), "memlock").verdict == Verdict::kOk);
}

TEST_CASE("CheckStorage: each property of the drive has its line", "[ctl]") {
  const std::vector<Finding> findings = CheckStorage("/tmp");
  for (const char* name : {"store path", "file system", "free space", "io_uring", "direct I/O"}) {
    CHECK(!Named(findings, name).what.empty());
  }
  const std::vector<Finding> missing = CheckStorage("/tmp/moetier-no-such-directory/stores");
  CHECK(Named(missing, "store path").verdict == Verdict::kWarn);
  CHECK(Named(missing, "file system").verdict != Verdict::kFail);
}

TEST_CASE("Findings: text has a line each and its advice, JSON the worst verdict", "[ctl]") {
  const std::vector<Finding> findings = {{"a", Verdict::kOk, "good", ""},
                                         {"long", Verdict::kFail, "bad", "mend it"}};
  CHECK(FindingsText(findings) ==
        "ok    a     good\n"
        "fail  long  bad\n"
        "            -> mend it\n");
  const auto json = nlohmann::json::parse(FindingsJson(findings));
  CHECK(json["worst"] == "fail");
  CHECK(json["findings"][1]["advice"] == "mend it");
  CHECK(Worst({}) == Verdict::kOk);
}

TEST_CASE("CheckStorage: a directory that this user may not look at is not called missing",
          "[ctl]") {
  const testing::TempFolder folder;
  CHECK_THAT(Named(CheckStorage(folder.File("stores")), "store path").what,
             Catch::Contains("is no directory yet"));
  REQUIRE(::chmod(folder.path().c_str(), 0) == 0);
  Finding path;
  {
    const testing::AsNobody nobody;
    path = Named(CheckStorage(folder.File("stores")), "store path");
  }
  REQUIRE(::chmod(folder.path().c_str(), 0700) == 0);
  CHECK(path.verdict == Verdict::kWarn);
  CHECK_THAT(path.what, Catch::Contains("may not look at " + folder.File("stores")));
  CHECK_THAT(path.advice, Catch::Contains("run as root"));
}

}  // namespace moetier
