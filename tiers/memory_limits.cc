#include "tiers/memory_limits.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/file_io.h"
#include "base/text_size.h"

namespace moetier {
namespace {

// Kernel text files of this kind are a few KiB; more is not what we expect.
constexpr Bytes kTextLimit = 1_MiB;
// v1 says "no limit" as the largest multiple of a page below 2^63; no host has half of that.
constexpr uint64_t kNoLimitV1 = uint64_t{1} << 62;
constexpr uint64_t kCapIpcLock = uint64_t{1} << 14;  // bit number from linux/capability.h

std::optional<std::string> ReadIfThere(const std::string& path) {
  Result<std::string> text = ReadTextFile(path, kTextLimit);
  if (!text.has_value()) return std::nullopt;
  return std::move(text).value();
}

std::string_view TrimLeft(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t");
  return start == std::string_view::npos ? std::string_view() : text.substr(start);
}

std::optional<uint64_t> ParseNumber(std::string_view text, int base = 10) {
  text = TrimLeft(text);
  uint64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (status != std::errc()) return std::nullopt;
  return value;
}

// Calls `visit` with each line, without its end.
template <typename Visit>
void ForEachLine(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// What follows `label` on the line that starts with it.
std::optional<std::string_view> FieldAfter(std::string_view text, std::string_view label) {
  std::optional<std::string_view> found;
  ForEachLine(text, [&](std::string_view line) {
    if (!found && line.starts_with(label)) found = TrimLeft(line.substr(label.size()));
  });
  return found;
}

std::optional<uint64_t> NumberAfter(std::string_view text, std::string_view label, int base = 10) {
  const auto field = FieldAfter(text, label);
  return field ? ParseNumber(*field, base) : std::nullopt;
}

std::optional<uint64_t> ReadNumber(const std::string& path) {
  const auto text = ReadIfThere(path);
  return text ? ParseNumber(*text) : std::nullopt;
}

// "/a/b" -> "/a" -> "" (the root of the hierarchy).
std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

// Our group's path in the hierarchy of v2 ("0::/path") or of the v1 memory controller
// ("4:memory:/path"); within a container it may lie outside of what is mounted.
std::optional<std::string> OwnGroup(std::string_view proc_cgroup, CgroupVersion version) {
  std::optional<std::string> found;
  ForEachLine(proc_cgroup, [&](std::string_view line) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) return;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const bool ours = version == CgroupVersion::kV2
                          ? line.starts_with("0::")
                          : controllers.find(",memory,") != std::string::npos;
    if (ours) found = std::string(line.substr(second + 1));
  });
  if (found && *found == "/") found->clear();
  return found;
}

std::optional<CgroupLimit> ReadLimitV2(const std::string& folder) {
  const auto usage = ReadNumber(folder + "/memory.current");
  std::optional<CgroupLimit> tightest;
  // Above memory.high the kernel throttles to a crawl, so it is a limit like memory.max.
  for (const char* file : {"memory.max", "memory.high"}) {
    const auto limit = ReadNumber(fmt::format("{}/{}", folder, file));  // "max" is no number
    if (!limit || (tightest && tightest->limit.count() <= *limit)) continue;
    tightest = CgroupLimit{CgroupVersion::kV2, folder, file, Bytes(*limit), Bytes(), Bytes()};
  }
  if (!tightest || !usage) return std::nullopt;
  tightest->usage = Bytes(*usage);
  const std::string stat = ReadIfThere(folder + "/memory.stat").value_or("");
  tightest->reclaimable = Bytes(NumberAfter(stat, "inactive_file ").value_or(0)) +
                          Bytes(NumberAfter(stat, "active_file ").value_or(0)) +
                          Bytes(NumberAfter(stat, "slab_reclaimable ").value_or(0));
  return tightest;
}

std::optional<CgroupLimit> ReadLimitV1(const std::string& folder) {
  const auto usage = ReadNumber(folder + "/memory.usage_in_bytes");
  const auto own_limit = ReadNumber(folder + "/memory.limit_in_bytes");
  if (!usage || !own_limit) return std::nullopt;
  const std::string stat = ReadIfThere(folder + "/memory.stat").value_or("");
  CgroupLimit found{CgroupVersion::kV1, folder,        "memory.limit_in_bytes",
                    Bytes(*own_limit),  Bytes(*usage), Bytes()};
  // Counts ancestors too, those outside of a container's mount included.
  const auto inherited = NumberAfter(stat, "hierarchical_memory_limit ");
  if (inherited && *inherited < *own_limit) {
    found.limit = Bytes(*inherited);
    found.file = "memory.stat hierarchical_memory_limit";
  }
  if (found.limit.count() >= kNoLimitV1) return std::nullopt;
  found.reclaimable = Bytes(NumberAfter(stat, "total_inactive_file ").value_or(0)) +
                      Bytes(NumberAfter(stat, "total_active_file ").value_or(0));
  return found;
}

// Our group and all its ancestors up to the mounted root. Groups that are not there lie outside of
// a container's mount, whose root is then our own group.
void AddLimits(std::string_view proc_cgroup, const std::string& mount, CgroupVersion version,
               std::vector<CgroupLimit>& limits) {
  std::optional<std::string> group = OwnGroup(proc_cgroup, version);
  if (!group) return;
  for (;;) {
    const bool escapes = group->find("/..") != std::string::npos;
    const std::string folder = mount + *group;
    if (!escapes) {
      auto limit = version == CgroupVersion::kV2 ? ReadLimitV2(folder) : ReadLimitV1(folder);
      if (limit) limits.push_back(*std::move(limit));
    }
    if (group->empty()) return;
    *group = ParentOf(*group);
  }
}

TransparentHugePages ReadHugePages(const MemoryRoots& roots) {
  const std::string text =
      ReadIfThere(roots.sys + "/kernel/mm/transparent_hugepage/enabled").value_or("");
  if (text.find("[always]") != std::string::npos) return TransparentHugePages::kAlways;
  if (text.find("[madvise]") != std::string::npos) return TransparentHugePages::kMadvise;
  if (text.find("[never]") != std::string::npos) return TransparentHugePages::kNever;
  return TransparentHugePages::kUnknown;
}

Error OverLimit(std::string message) {
  return Error{ErrorCode::kExhausted, Reason::kMemoryLimit, std::move(message)};
}

// As a configuration takes it, rounded so that what is advised is enough.
std::string AtLeast(Bytes size) { return fmt::format("{}MiB", (size + 1_MiB - 1_B) / 1_MiB); }

// The same, for at most `most` and at least `least`, whole KiB; none where that is nothing.
std::optional<std::string> Between(Bytes least, Bytes most) {
  if (most < least || most < 1_KiB) return std::nullopt;
  const Bytes whole = 1_MiB * (most / 1_MiB);
  if (whole >= std::max(least, 1_MiB)) return fmt::format("{}MiB", whole / 1_MiB);
  return fmt::format("{}KiB", most / 1_KiB);
}

std::string DescribeGroup(const CgroupLimit& group, Bytes needed) {
  const bool v2 = group.version == CgroupVersion::kV2;
  return fmt::format(
      "cgroup {} has room for {} ({} {} less {} used plus {} reclaimable cache): raise {} to {}",
      group.path, FormatSize(group.room()), group.file, FormatSize(group.limit),
      FormatSize(group.usage), FormatSize(group.reclaimable),
      v2 ? "MemoryMax/MemoryHigh of the unit, or the container's memory limit,"
         : "memory.limit_in_bytes, or the container's memory limit,",
      AtLeast(group.held() + needed));
}

}  // namespace

Bytes CgroupLimit::held() const { return usage - std::min(usage, reclaimable); }

Bytes CgroupLimit::room() const { return limit - std::min(limit, held()); }

Bytes MemoryLimits::room() const {
  Bytes tightest = available;
  for (const CgroupLimit& group : cgroups) tightest = std::min(tightest, group.room());
  return tightest;
}

Result<MemoryLimits> ReadMemoryLimits(const MemoryRoots& roots) {
  ASSIGN_OR_RETURN(const std::string meminfo, ReadTextFile(roots.proc + "/meminfo", kTextLimit));
  const auto total = NumberAfter(meminfo, "MemTotal:");
  const auto available = NumberAfter(meminfo, "MemAvailable:");
  constexpr uint64_t kMostKib = UINT64_MAX >> 10;
  if (!total || !available || *total > kMostKib || *available > kMostKib) {
    return Error{ErrorCode::kUnavailable, Reason::kIo,
                 fmt::format("{}/meminfo: no MemTotal and MemAvailable", roots.proc)};
  }
  MemoryLimits limits;
  limits.total = Bytes(*total << 10);
  limits.available = Bytes(*available << 10);

  const std::string groups = ReadIfThere(roots.proc + "/self/cgroup").value_or("");
  const std::string mount = roots.sys + "/fs/cgroup";
  AddLimits(groups, mount, CgroupVersion::kV2, limits.cgroups);
  AddLimits(groups, mount + "/unified", CgroupVersion::kV2, limits.cgroups);
  AddLimits(groups, mount + "/memory", CgroupVersion::kV1, limits.cgroups);

  const std::string rlimits = ReadIfThere(roots.proc + "/self/limits").value_or("");
  if (const auto memlock = NumberAfter(rlimits, "Max locked memory")) {
    limits.memlock = Bytes(*memlock);  // "unlimited" is no number
  }
  const std::string status = ReadIfThere(roots.proc + "/thread-self/status").value_or("");
  limits.may_lock_all = (NumberAfter(status, "CapEff:", 16).value_or(0) & kCapIpcLock) != 0;
  limits.huge_pages = ReadHugePages(roots);
  return limits;
}

Status CheckBudget(const MemoryLimits& limits, const BudgetRequest& request) {
  const Bytes needed = request.wanted + request.reserve;
  if (request.wanted == Bytes() || needed <= limits.room()) return Ok{};
  std::string text = fmt::format("{}: {} wanted and {} kept free, but", request.what,
                                 FormatSize(request.wanted), FormatSize(request.reserve));
  if (limits.available < needed) {
    text += fmt::format(
        " the host has {} available of {} (MemAvailable): stop other programs that "
        "hold {};",
        FormatSize(limits.available), FormatSize(limits.total), AtLeast(needed - limits.available));
  }
  for (const CgroupLimit& group : limits.cgroups) {
    if (group.room() < needed) text += fmt::format(" {};", DescribeGroup(group, needed));
  }
  const Bytes most = limits.room() - std::min(limits.room(), request.reserve);
  if (const std::optional<std::string> lower = Between(request.least, most)) {
    text += fmt::format(" or lower {} to {}", request.what, *lower);
  } else {
    text += fmt::format(" {} takes {} at least", request.what, AtLeast(request.least));
  }
  return OverLimit(std::move(text));
}

Status CheckMemlock(const MemoryLimits& limits, Bytes wanted) {
  if (limits.may_lock_all || !limits.memlock || wanted <= *limits.memlock) return Ok{};
  return OverLimit(fmt::format(
      "{} to lock, but the limit of locked memory is {}: raise LimitMEMLOCK of the unit (or "
      "`ulimit -l`, /etc/security/limits.conf) to {} KiB or infinity",
      FormatSize(wanted), FormatSize(*limits.memlock),
      wanted.count() / 1024 + (wanted.count() % 1024 != 0)));
}

}  // namespace moetier
