#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/file_io.h"
#include "base/text_size.h"
#include "daemon/ctl/doctor_report.h"
#include "kernels/expert_kernels.h"

namespace moetier {
namespace {

Finding CheckCpu() {
  using kernels::InstructionSet;
  std::string offered;
  for (const InstructionSet set :
       {InstructionSet::kScalar, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (!kernels::CpuSupports(set)) continue;
    offered += fmt::format("{}{}", offered.empty() ? "" : ", ", kernels::InstructionSetName(set));
  }
  const InstructionSet best = kernels::BestInstructionSet();
  Finding finding{
      "CPU", Verdict::kOk,
      fmt::format("{} cores; kernels for {}; best: {}", std::thread::hardware_concurrency(),
                  offered, kernels::InstructionSetName(best)),
      ""};
  if (best == InstructionSet::kScalar) {
    finding.verdict = Verdict::kWarn;
    finding.advice = "results are right but slow; a CPU with AVX2 is many times faster";
  }
  const char* const asked = std::getenv("MOETIER_INSTRUCTION_SET");
  if (asked == nullptr || *asked == '\0' || std::string_view(asked) == "auto") return finding;
  finding.what += fmt::format("; MOETIER_INSTRUCTION_SET asks for {}", asked);
  const auto set = kernels::ParseInstructionSet(asked);
  if (!set || !kernels::CpuSupports(*set)) {
    finding.verdict = Verdict::kFail;
    finding.advice = "unset MOETIER_INSTRUCTION_SET, or name one that this CPU has";
  }
  return finding;
}

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

std::string FindNvcc() {
  const char* const path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const std::string candidate = std::string(rest.substr(0, colon)) + "/nvcc";
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    rest.remove_prefix(colon == std::string_view::npos ? rest.size() : colon + 1);
  }
  const std::string usual = "/usr/local/cuda/bin/nvcc";
  return ::access(usual.c_str(), X_OK) == 0 ? usual : "";
}

// Reports only: this version computes on the CPU.
Finding CheckGpu(const MemoryRoots& roots) {
  const std::string nvcc = FindNvcc();
  const bool driver = Exists(roots.proc + "/driver/nvidia/version");
  return {"GPU", Verdict::kOk,
          fmt::format("NVIDIA driver {}, CUDA compiler {}; not used by this version",
                      driver ? "found" : "not found", nvcc.empty() ? "not found" : nvcc),
          ""};
}

std::string_view HugePagesName(TransparentHugePages pages) {
  switch (pages) {
    case TransparentHugePages::kAlways:
      return "always";
    case TransparentHugePages::kMadvise:
      return "madvise";
    case TransparentHugePages::kNever:
      return "never";
    case TransparentHugePages::kUnknown:
      return "not told by the kernel";
  }
  return "?";
}

Finding CheckMemlockLimit(const MemoryLimits& limits) {
  if (limits.may_lock_all) return {"memlock", Verdict::kOk, "no limit (CAP_IPC_LOCK)", ""};
  if (!limits.memlock) return {"memlock", Verdict::kOk, "no limit", ""};
  constexpr Bytes kRing = 64_MiB;  // what buffers registered with a ring may need on old kernels
  Finding finding{"memlock", Verdict::kOk, FormatSize(*limits.memlock), ""};
  if (*limits.memlock < kRing) {
    finding.verdict = Verdict::kWarn;
    finding.advice =
        "needed for memory.lock: set LimitMEMLOCK=infinity in the unit, or `ulimit -l unlimited`";
  }
  return finding;
}

Finding CheckHugePages(const MemoryLimits& limits) {
  Finding finding{"huge pages", Verdict::kOk, std::string(HugePagesName(limits.huge_pages)), ""};
  if (limits.huge_pages == TransparentHugePages::kNever ||
      limits.huge_pages == TransparentHugePages::kUnknown) {
    finding.verdict = Verdict::kWarn;
    finding.advice =
        "arenas get 4 KiB pages; write madvise to /sys/kernel/mm/transparent_hugepage/enabled";
  }
  return finding;
}

Finding CheckCgroup(const MemoryLimits& limits) {
  if (limits.cgroups.empty()) return {"cgroup", Verdict::kOk, "no memory limit", ""};
  const CgroupLimit* tightest = &limits.cgroups.front();
  for (const CgroupLimit& limit : limits.cgroups) {
    if (limit.room() < tightest->room()) tightest = &limit;
  }
  const Bytes room = tightest->room();
  Finding finding{"cgroup", Verdict::kOk,
                  fmt::format("v{}: {} = {}, {} in use of which {} can be reclaimed; room {} ({})",
                              tightest->version == CgroupVersion::kV2 ? 2 : 1, tightest->file,
                              FormatSize(tightest->limit), FormatSize(tightest->usage),
                              FormatSize(tightest->reclaimable), FormatSize(room), tightest->path),
                  ""};
  if (room < limits.available && room < 1_GiB) {
    finding.verdict = Verdict::kWarn;
    finding.advice = "raise the limit (MemoryMax in the unit, --memory of the container)";
  }
  return finding;
}

}  // namespace

Finding CheckKernel(std::string_view release) {
  uint32_t major = 0;
  uint32_t minor = 0;
  const char* const last = release.data() + release.size();
  const auto first = std::from_chars(release.data(), last, major);
  bool known = first.ec == std::errc() && first.ptr != last && *first.ptr == '.';
  known = known && std::from_chars(first.ptr + 1, last, minor).ec == std::errc();
  Finding finding{"kernel", Verdict::kOk, fmt::format("Linux {}", release), ""};
  if (!known) {
    finding.verdict = Verdict::kWarn;
    finding.advice = "its version is not understood; Linux 5.10 or newer is expected";
  } else if (major < 5 || (major == 5 && minor < 10)) {
    // 5.10: the oldest kernel with which Debian still ships liburing.
    finding.verdict = Verdict::kWarn;
    finding.advice = "older than 5.10: io_uring may be missing; reads then go through threads";
  }
  return finding;
}

std::vector<Finding> CheckMemory(const MemoryLimits& limits) {
  Finding memory{
      "memory", Verdict::kOk,
      fmt::format("{} in all, {} available, {} for this process", FormatSize(limits.total),
                  FormatSize(limits.available), FormatSize(limits.room())),
      ""};
  if (limits.room() < 64_MiB) {
    memory.verdict = Verdict::kFail;
    memory.advice = "too little for any model; free memory or raise the limit below";
  } else if (limits.room() < 512_MiB) {
    memory.verdict = Verdict::kWarn;
    memory.advice = "only small models and budgets will fit";
  }
  return {std::move(memory), CheckCgroup(limits), CheckMemlockLimit(limits),
          CheckHugePages(limits)};
}

std::vector<Finding> CheckHost(const MemoryRoots& roots) {
  std::vector<Finding> findings;
  utsname name = {};
  findings.push_back(CheckKernel(::uname(&name) == 0 ? name.release : "unknown"));
  findings.push_back(CheckCpu());
  const Result<MemoryLimits> limits = ReadMemoryLimits(roots);
  if (limits) {
    for (Finding& finding : CheckMemory(*limits)) findings.push_back(std::move(finding));
  } else {
    findings.push_back({"memory", Verdict::kFail, limits.error().message, "mount /proc"});
  }
  findings.push_back(CheckGpu(roots));
  return findings;
}

}  // namespace moetier
