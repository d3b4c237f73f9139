#include "tiers/store/opened_model.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <optional>
#include <utility>

#include "tiers/store/gguf_header.h"
#include "tiers/store/gguf_shards.h"
#include "tiers/store/moe_model.h"
#include "tiers/store/mounted_type.h"
#include "tiers/store/shell_gguf.h"

namespace moetier {
namespace {

// Of all headers together. The largest known vocabularies take about 30 MB, and a hostile header
// can take eight times its size in memory.
constexpr uint64_t kMaxHeaderBytes = uint64_t{64} << 20;

Error NotAModel(const std::string& name, std::string_view what) {
  return Error{ErrorCode::kInvalidArgument, Reason::kBadGguf,
               fmt::format("{} {}: give the model's GGUF files, open for reading", name, what)};
}

// What the kernel calls the descriptor. Its owner chose that name, so control characters go.
std::string DescriptorName(int fd) {
  std::array<char, PATH_MAX> text{};
  const std::string link = fmt::format("/proc/self/fd/{}", fd);
  const ssize_t length = ::readlink(link.c_str(), text.data(), text.size());
  if (length <= 0) return fmt::format("descriptor {}", fd);
  std::string name(text.data(), static_cast<size_t>(length));
  for (char& c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return name;
}

std::string_view KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "is a directory";
  if (S_ISFIFO(mode)) return "is a pipe";
  if (S_ISSOCK(mode)) return "is a socket";
  if (S_ISCHR(mode)) return "is a character device";
  if (S_ISBLK(mode)) return "is a block device";
  return "is no regular file";
}

// Asks the kernel alone: a file system with a server may never answer its client's daemon.
Status CheckPlace(int fd, const std::string& name) {
  struct statx known {};
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &known) != 0) {
    return ErrnoError(errno, fmt::format("statx {}", name));
  }
  if (!S_ISREG(known.stx_mode)) return NotAModel(name, KindOf(known.stx_mode));
  ASSIGN_OR_RETURN(const std::optional<std::string> type, MountedType(fd));
  if (type && IsLocalType(*type)) return Ok{};
  return Error{ErrorCode::kInvalidArgument, Reason::kBadGguf,
               fmt::format("{} is on {}, which may stop answering: keep the model on a local file "
                           "system (ext4, xfs, btrfs, ...), or import it into a store and let the "
                           "daemon's configuration load that",
                           name,
                           type ? fmt::format("a file system of type {}", *type)
                                : "a file system that is not mounted where the daemon runs")};
}

Result<struct stat> CheckFile(int fd, const std::string& name) {
  RETURN_IF_ERROR(CheckPlace(fd, name));
  struct stat info {};
  if (::fstat(fd, &info) != 0) return ErrnoError(errno, fmt::format("stat {}", name));
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return ErrnoError(errno, fmt::format("flags of {}", name));
  if ((flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_WRONLY) {
    return NotAModel(name, "is not open for reading");
  }
  if (info.st_size == 0) return NotAModel(name, "is empty");
  if (static_cast<uint64_t>(info.st_size) > kMaxStoreFileBytes) {
    return NotAModel(
        name, fmt::format("has {} bytes, {} are the most", info.st_size, kMaxStoreFileBytes));
  }
  return info;
}

// One file's part of an OpenedModel.
struct OpenedFile {
  GgufFile gguf;
  FileIdentity identity;
  SourceFile source;
};

Result<OpenedFile> OpenOne(int fd, uint64_t header_limit) {
  const std::string name = DescriptorName(fd);
  ASSIGN_OR_RETURN(const struct stat info, CheckFile(fd, name));
  OpenedFile file;
  ASSIGN_OR_RETURN(file.gguf, ReadOpenGgufFile(fd, name, header_limit));
  file.identity = {info.st_dev, info.st_ino};
  file.source = {
      .path = name,
      .bytes = file.gguf.bytes,
      .mtime_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + int64_t{info.st_mtim.tv_nsec}};
  return file;
}

Status FindFingerprint(OpenedModel& model) {
  ASSIGN_OR_RETURN(const std::optional<uint64_t> shell_of, ShellFingerprint(model.gguf));
  if (shell_of) {
    model.is_shell = true;
    model.fingerprint = *shell_of;
    return Ok{};
  }
  // A fingerprint does not depend on the activation, which a store may know better than we do.
  ASSIGN_OR_RETURN(const MoeModel experts,
                   ReadMoeModel(model.gguf, {.activation = kernels::Activation::kSwiGlu}));
  ASSIGN_OR_RETURN(model.fingerprint, ModelFingerprint(model.gguf, experts, model.files));
  return Ok{};
}

}  // namespace

Result<OpenedModel> OpenModelFiles(std::vector<UniqueFd> files,
                                   const std::function<bool()>& keep_going) {
  if (files.empty() || files.size() > kMaxOpenedFiles) {
    return Error{ErrorCode::kInvalidArgument, Reason::kBadGguf,
                 fmt::format("{} model files were given, 1 to {} are allowed", files.size(),
                             kMaxOpenedFiles)};
  }
  std::vector<OpenedFile> opened;
  std::vector<GgufFile> headers;
  uint64_t header_bytes = 0;
  for (const UniqueFd& fd : files) {
    if (!keep_going()) {
      return Error{ErrorCode::kCancelled, Reason::kCancelled, "stopped reading model files"};
    }
    ASSIGN_OR_RETURN(OpenedFile file, OpenOne(fd.get(), kMaxHeaderBytes - header_bytes));
    header_bytes += std::min(file.gguf.header.data_offset, kMaxHeaderBytes - header_bytes);
    headers.push_back(std::move(file.gguf));
    opened.push_back(std::move(file));
  }
  ASSIGN_OR_RETURN(const std::vector<size_t> order, FindShardOrder(headers));
  OpenedModel model;
  std::vector<GgufFile> ordered;
  for (const size_t i : order) {
    ordered.push_back(std::move(headers[i]));
    model.files.push_back(std::move(files[i]));
    model.identities.push_back(opened[i].identity);
    model.sources.push_back(std::move(opened[i].source));
  }
  model.gguf = GgufModel::FromFiles(std::move(ordered));
  RETURN_IF_ERROR(FindFingerprint(model));
  return model;
}

}  // namespace moetier
