#include "tiers/store/file_system.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/file_io.h"
#include "base/regular_file.h"
#include "base/unique_fd.h"
#include "tiers/store/store_lock.h"

namespace moetier {
namespace {

class HostFile final : public StoreFileHandle {
 public:
  HostFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Result<uint64_t> Size() override {
    struct stat info {};
    if (::fstat(fd_.get(), &info) != 0) return ErrnoError(errno, fmt::format("stat {}", path_));
    return static_cast<uint64_t>(info.st_size);
  }

  Status ReadAt(uint64_t offset, std::span<std::byte> out) override {
    return ReadExactly(fd_.get(), offset, out, path_);
  }

  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t put = ::pwrite(fd_.get(), bytes.data() + done, bytes.size() - done,
                                   static_cast<off_t>(offset + done));
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) {
        return ErrnoError(put < 0 ? errno : ENOSPC,
                          fmt::format("write {} bytes at {} of {}", bytes.size(), offset, path_));
      }
      done += static_cast<size_t>(put);
    }
    return Ok{};
  }

  Status Truncate(uint64_t size) override {
    if (::ftruncate(fd_.get(), static_cast<off_t>(size)) == 0) return Ok{};
    return ErrnoError(errno, fmt::format("set {} to {} bytes", path_, size));
  }

  Status Sync() override {
    if (::fsync(fd_.get()) == 0) return Ok{};
    return ErrnoError(errno, fmt::format("fsync {}", path_));
  }

 private:
  UniqueFd fd_;
  std::string path_;
};

class HostLock final : public DirectoryLock {
 public:
  explicit HostLock(StoreLock lock) : lock_(std::move(lock)) {}

 private:
  StoreLock lock_;
};

class HostFiles final : public FileSystem {
 public:
  Result<std::unique_ptr<StoreFileHandle>> Open(const std::string& path, Mode mode) override {
    int flags = O_RDONLY;
    if (mode == Mode::kReadWrite) flags = O_RDWR;
    if (mode == Mode::kCreate) flags = O_RDWR | O_CREAT | O_TRUNC;
    ASSIGN_OR_RETURN(UniqueFd fd, OpenRegularFile(path, flags));
    return std::unique_ptr<StoreFileHandle>(std::make_unique<HostFile>(std::move(fd), path));
  }

  Result<bool> Exists(const std::string& path) override {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return ErrnoError(errno, fmt::format("stat {}", path));
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return Ok{};
    return ErrnoError(errno, fmt::format("rename {} to {}", from, to));
  }

  Status Remove(const std::string& path) override {
    if (::unlink(path.c_str()) == 0 || errno == ENOENT) return Ok{};
    return ErrnoError(errno, fmt::format("remove {}", path));
  }

  Status CreateDirectories(const std::string& path) override {
    ASSIGN_OR_RETURN(const bool exists, Exists(path));
    if (exists) return Ok{};
    const std::string parent = std::filesystem::path(path).parent_path();
    if (!parent.empty()) RETURN_IF_ERROR(CreateDirectories(parent));
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
      return ErrnoError(errno, fmt::format("make directory {}", path));
    }
    return SyncDirectory(parent.empty() ? "." : parent);
  }

  Status SyncDirectory(const std::string& path) override {
    ASSIGN_OR_RETURN(const UniqueFd fd, UniqueFd::Open(path, O_RDONLY | O_DIRECTORY));
    if (::fsync(fd.get()) == 0) return Ok{};
    return ErrnoError(errno, fmt::format("fsync directory {}", path));
  }

  Result<uint64_t> FreeBytes(const std::string& directory) override {
    struct statvfs info {};
    if (::statvfs(directory.c_str(), &info) != 0) {
      return ErrnoError(errno, fmt::format("ask for the free space at {}", directory));
    }
    return uint64_t{info.f_bavail} * info.f_frsize;
  }

  Result<std::unique_ptr<DirectoryLock>> Lock(const std::string& directory) override {
    ASSIGN_OR_RETURN(StoreLock lock, StoreLock::Take(directory));
    return std::unique_ptr<DirectoryLock>(std::make_unique<HostLock>(std::move(lock)));
  }
};

}  // namespace

FileSystem& HostFileSystem() {
  static HostFiles files;
  return files;
}

Result<std::vector<std::byte>> ReadWholeFile(FileSystem& files, const std::string& path,
                                             uint64_t limit) {
  ASSIGN_OR_RETURN(const auto file, files.Open(path, FileSystem::Mode::kRead));
  ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size > limit) {
    return Error{ErrorCode::kDataLoss, Reason::kTooLarge,
                 fmt::format("{} has {} bytes, {} are the most it can have", path, size, limit)};
  }
  std::vector<std::byte> bytes(size);
  RETURN_IF_ERROR(file->ReadAt(0, bytes));
  return bytes;
}

}  // namespace moetier
