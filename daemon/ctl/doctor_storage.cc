#include <fmt/format.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/permission_remedy.h"
#include "base/text_size.h"
#include "base/unique_fd.h"
#include "daemon/ctl/doctor_report.h"
#include "tiers/nvme/create_reader.h"

namespace moetier {
namespace {

// Probes submit nothing, so nothing completes.
class NoReads final : public ReadListener {
 public:
  void OnRead(const ReadCompletion& /*completion*/) override {}
};

// A file of one block in a directory, removed again at the end.
class ProbeFile {
 public:
  static Result<ProbeFile> Create(const std::string& directory) {
    std::string path = directory + "/.moetierctl-doctor-XXXXXX";
    UniqueFd fd(::mkostemp(path.data(), O_CLOEXEC));
    if (!fd) return ErrnoError(errno, "create a file in " + directory);
    ProbeFile file(path);
    const std::array<char, 4096> block{};
    const ssize_t written = ::write(fd.get(), block.data(), block.size());
    if (written != static_cast<ssize_t>(block.size()) || ::fsync(fd.get()) != 0) {
      return ErrnoError(errno, "write 4 KiB to " + path);
    }
    return file;
  }
  ~ProbeFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  ProbeFile(ProbeFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ProbeFile& operator=(ProbeFile&&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit ProbeFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

struct FileSystemName {
  uint64_t magic;  // statfs(2)'s f_type
  std::string_view name;
  bool direct;  // known to pass direct I/O on to a drive
};
constexpr std::array kFileSystems = {
    FileSystemName{0xEF53, "ext4", true},          FileSystemName{0x58465342, "xfs", true},
    FileSystemName{0x9123683E, "btrfs", true},     FileSystemName{0xF2F52010, "f2fs", true},
    FileSystemName{0x2FC12FC1, "zfs", false},      FileSystemName{0x01021994, "tmpfs", false},
    FileSystemName{0x794C7630, "overlayfs", true}, FileSystemName{0x6969, "nfs", false},
    FileSystemName{0x65735546, "fuse", false},     FileSystemName{0x01021997, "9p", false},
};

Finding CheckFileSystem(const std::string& directory) {
  struct statfs status = {};
  if (::statfs(directory.c_str(), &status) != 0) {
    return {"file system", Verdict::kFail,
            fmt::format("statfs {}: {}", directory, std::strerror(errno)), "name a directory"};
  }
  const auto magic = static_cast<uint64_t>(status.f_type);
  for (const FileSystemName& known : kFileSystems) {
    if (known.magic != magic) continue;
    Finding finding{"file system", Verdict::kOk, fmt::format("{} on {}", known.name, directory),
                    ""};
    if (!known.direct) {
      finding.verdict = Verdict::kWarn;
      finding.advice = "reads may pass through the page cache; ext4 or xfs on NVMe is best";
    }
    return finding;
  }
  return {"file system", Verdict::kOk, fmt::format("type {:#x} on {}", magic, directory), ""};
}

Finding CheckSpace(const std::string& directory) {
  struct statvfs status = {};
  if (::statvfs(directory.c_str(), &status) != 0) {
    return {"free space", Verdict::kFail,
            fmt::format("statvfs {}: {}", directory, std::strerror(errno)), "name a directory"};
  }
  const Bytes free = Bytes(status.f_bavail) * status.f_frsize;
  Finding finding{"free space", Verdict::kOk, FormatSize(free), ""};
  if (free < 1_GiB) {
    finding.verdict = Verdict::kWarn;
    finding.advice = "a packed store is as large as the model's experts; or import --in-place";
  }
  return finding;
}

Finding CheckIoUring() {
  NoReads listener;
  const auto reader = CreateRecordReader({.engine = IoEngine::kIoUring, .seams = {}}, listener);
  if (reader) return {"io_uring", Verdict::kOk, "a ring works", ""};
  return {"io_uring", Verdict::kWarn, reader.error().message,
          "reads go through threads instead, a little slower; allow io_uring (sysctl "
          "kernel.io_uring_disabled=0, the container's seccomp profile)"};
}

Finding CheckDirect(const std::string& directory) {
  const Result<ProbeFile> file = ProbeFile::Create(directory);
  if (!file) {
    return {"direct I/O", Verdict::kWarn, "not tried: " + file.error().message,
            "run as a user who may write there"};
  }
  NoReads listener;
  const auto reader = CreateRecordReader({.mode = IoMode::kDirect, .seams = {}}, listener);
  if (!reader) return {"direct I/O", Verdict::kWarn, reader.error().message, ""};
  const Result<FileId> id = (*reader)->AddFile(file->path());
  if (id) return {"direct I/O", Verdict::kOk, "a direct read works on " + directory, ""};
  return {"direct I/O", Verdict::kWarn, id.error().message,
          "reads go through the page cache, which costs memory and speed; put stores on ext4 or "
          "xfs"};
}

// The directory itself or the nearest parent that exists.
std::string NearestDirectory(const std::string& directory) {
  std::filesystem::path path(directory);
  std::error_code error;
  while (!std::filesystem::is_directory(path, error) && path.has_relative_path()) {
    path = path.parent_path();
  }
  return path.empty() ? "." : path.string();
}

Finding CheckPath(const std::string& directory, const std::string& nearest) {
  if (nearest == directory) return {"store path", Verdict::kOk, directory, ""};
  std::error_code error;
  (void)std::filesystem::is_directory(directory, error);
  if (error == std::errc::permission_denied) {
    return {
        "store path", Verdict::kWarn,
        fmt::format("user {} may not look at {}; looking at {}", UserName(), directory, nearest),
        "run as root (sudo moetierctl doctor) or as the daemon's user"};
  }
  return {"store path", Verdict::kWarn,
          fmt::format("{} is no directory yet; looking at {}", directory, nearest),
          "`moetierctl import` makes it; or name another with --store-root"};
}

}  // namespace

std::vector<Finding> CheckStorage(const std::string& directory) {
  const std::string there = NearestDirectory(directory);
  std::vector<Finding> findings;
  findings.push_back(CheckPath(directory, there));
  findings.push_back(CheckFileSystem(there));
  findings.push_back(CheckSpace(there));
  findings.push_back(CheckIoUring());
  findings.push_back(CheckDirect(there));
  return findings;
}

}  // namespace moetier
