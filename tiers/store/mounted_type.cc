#include "tiers/store/mounted_type.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <sstream>

#include "base/file_io.h"
#include "base/unique_fd.h"

namespace moetier {
namespace {

// Those that read from drives or memory of this host. An overlay's layers may be elsewhere, but
// only the administrator mounts one where this process sees it.
constexpr std::array<std::string_view, 18> kLocalTypes = {
    "bcachefs", "btrfs",   "erofs", "exfat",  "ext2",     "ext3",  "ext4", "f2fs", "hugetlbfs",
    "iso9660",  "overlay", "ramfs", "rootfs", "squashfs", "tmpfs", "vfat", "xfs",  "zfs",
};

constexpr Bytes kMostText = 16_MiB;  // some ten thousand mounts

// The next word of `line`, which is shortened by it.
std::string_view TakeWord(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

template <typename Number>
std::optional<Number> ToNumber(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<uint64_t> MountOf(int fd) {
  const std::string path = fmt::format("/proc/self/fdinfo/{}", fd);
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMostText));
  std::istringstream lines(text);
  for (std::string word; lines >> word;) {
    if (word != "mnt_id:" || !(lines >> word)) continue;
    if (const auto number = ToNumber<uint64_t>(word)) return *number;
  }
  return Error{ErrorCode::kUnavailable, Reason::kIo, fmt::format("{} has no mnt_id", path)};
}

}  // namespace

std::optional<std::string> FindMountedType(std::string_view mountinfo, const MountKey& key) {
  const std::string device = fmt::format("{}:{}", key.major, key.minor);
  std::optional<std::string> by_device;
  while (!mountinfo.empty()) {
    std::string_view line = mountinfo.substr(0, mountinfo.find('\n'));
    mountinfo.remove_prefix(std::min(line.size() + 1, mountinfo.size()));
    const std::optional<uint64_t> mount = ToNumber<uint64_t>(TakeWord(line));
    (void)TakeWord(line);  // the parent's number
    const bool same_device = TakeWord(line) == device;
    const size_t end_of_options = line.find(" - ");
    if (!mount || end_of_options == std::string_view::npos) continue;
    line.remove_prefix(end_of_options + 3);
    const std::string type(TakeWord(line));
    if (type.empty()) continue;
    if (*mount == key.mount) return type;
    if (same_device && !by_device) by_device = type;
  }
  return by_device;
}

Result<std::optional<std::string>> MountedType(int fd) {
  MountKey key;
  ASSIGN_OR_RETURN(key.mount, MountOf(fd));
  struct statx info {};
  // What is known already: a file system is not to ask its server.
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &info) != 0) {
    return ErrnoError(errno, fmt::format("statx descriptor {}", fd));
  }
  key.major = info.stx_dev_major;
  key.minor = info.stx_dev_minor;
  ASSIGN_OR_RETURN(const std::string mounts, ReadTextFile("/proc/self/mountinfo", kMostText));
  return FindMountedType(mounts, key);
}

bool IsLocalType(std::string_view type) {
  return std::ranges::find(kLocalTypes, type) != kLocalTypes.end();
}

}  // namespace moetier
