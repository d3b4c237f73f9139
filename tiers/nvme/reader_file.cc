#include "tiers/nvme/reader_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/regular_file.h"
#include "tiers/store/model_geometry.h"

namespace moetier {
namespace {

// Records may lie on a block device without a file system.
constexpr FileKinds kStoredOn = FileKinds::kRegularOrBlockDevice;

// File systems refuse direct I/O at open (EINVAL), at the first read (EINVAL when their blocks are
// larger than ours), or say that they do not support it.
bool RefusesDirect(int error) {
  return error == EINVAL || error == EOPNOTSUPP || error == ENOTSUP || error == ENOSYS;
}

// The errno of one direct read. A failing drive (EIO) is no refusal: other blocks may be well.
int TryDirectRead(int fd) {
  struct alignas(kRecordAlignment) Block {
    std::array<std::byte, kRecordAlignment> bytes;
  } block;
  if (::pread(fd, block.bytes.data(), block.bytes.size(), 0) >= 0) return 0;
  return RefusesDirect(errno) ? errno : 0;
}

Result<ReaderFile> OpenDirect(const std::string& path,
                              const std::function<int(const std::string&)>& direct_error) {
  if (const int pretended = direct_error ? direct_error(path) : 0; pretended != 0) {
    return ErrnoError(pretended, fmt::format("open {} for direct I/O", path));
  }
  ASSIGN_OR_RETURN(UniqueFd fd, OpenRegularFile(path, O_RDONLY | O_DIRECT, kStoredOn));
  if (const int error = TryDirectRead(fd.get()); error != 0) {
    return ErrnoError(error, fmt::format("read {} with direct I/O", path));
  }
  return ReaderFile{std::move(fd), CacheUse::kBypassed, std::nullopt};
}

Result<ReaderFile> OpenBuffered(const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenRegularFile(path, O_RDONLY, kStoredOn));
  // Without read-ahead nothing enters the page cache that is not dropped after its read.
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM);
  return ReaderFile{std::move(fd), CacheUse::kDropAfterRead, std::nullopt};
}

}  // namespace

Result<ReaderFile> OpenReaderFile(const std::string& path, IoMode mode,
                                  const std::function<int(const std::string&)>& direct_error) {
  if (mode == IoMode::kBuffered) return OpenBuffered(path);
  Result<ReaderFile> direct = OpenDirect(path, direct_error);
  if (direct.has_value() || mode == IoMode::kDirect) return direct;
  Result<ReaderFile> buffered = OpenBuffered(path);
  // Where a plain open fails as well, direct I/O was not the reason.
  if (!buffered.has_value()) return buffered;
  buffered->fallback = Fallback{
      "io_mode:buffered",
      fmt::format("{}; reads pass the page cache: keep the store on a file system with direct I/O "
                  "(ext4, xfs, btrfs) for full speed",
                  direct.error().message)};
  return buffered;
}

Result<ReaderFile> ReopenReaderFile(int fd, const std::string& name, IoMode mode,
                                    const std::function<int(const std::string&)>& direct_error) {
  Result<ReaderFile> file = OpenReaderFile(fmt::format("/proc/self/fd/{}", fd), mode, direct_error);
  if (file.has_value()) {
    if (file->fallback)
      file->fallback->reason = fmt::format("{}: {}", name, file->fallback->reason);
    return file;
  }
  const std::string why = fmt::format("{}: {}", name, file.error().message);
  if (mode == IoMode::kDirect) return Error{file.error().code, file.error().reason, why};
  const int shared = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (shared < 0) return ErrnoError(errno, fmt::format("{}; duplicate its descriptor", why));
  // No advice on read-ahead: it would hold for the giver's reads too.
  return ReaderFile{
      UniqueFd(shared), CacheUse::kDropAfterRead,
      Fallback{"io_mode:buffered",
               fmt::format("{}; reads pass the page cache: let the daemon's user read "
                           "the file for direct I/O",
                           why)}};
}

}  // namespace moetier
