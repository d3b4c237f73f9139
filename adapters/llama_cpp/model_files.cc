#include "adapters/llama_cpp/model_files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/regular_file.h"

namespace moetier::ggml {
namespace {

// What the kernel writes after the path of a mapped file that has lost its name.
constexpr std::string_view kDeleted = " (deleted)";
// A key of the files that `moetierctl shell` writes: their experts are holes.
constexpr std::string_view kShellKey = "moetier.shell.fingerprint";
constexpr off_t kHeaderLimit = 64 << 20;
constexpr size_t kChunk = 1 << 20;
// "-00001-of-00003.gguf"
constexpr size_t kShardSuffix = 20;
constexpr uint32_t kMaxShards = 64;  // the fast lane takes no more descriptors

std::string ReadMaps() {
  std::ifstream in("/proc/self/maps");
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

// Takes the next word off `line`.
std::string_view NextWord(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

std::optional<uint64_t> ParseHex(std::string_view text) {
  uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<uint32_t> ParseFiveDigits(std::string_view text) {
  uint32_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

struct MapsLine {
  uintptr_t start;
  uintptr_t end;
  uint64_t offset;
  bool writable;
  std::string_view path;  // empty: no file
};
std::optional<MapsLine> ParseMapsLine(std::string_view line) {
  const std::string_view range = NextWord(line);
  const std::string_view permissions = NextWord(line);
  const std::optional<uint64_t> offset = ParseHex(NextWord(line));
  NextWord(line);  // device
  NextWord(line);  // inode
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const size_t dash = range.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::optional<uint64_t> start = ParseHex(range.substr(0, dash));
  const std::optional<uint64_t> end = ParseHex(range.substr(dash + 1));
  if (!start || !end || !offset) return std::nullopt;
  return MapsLine{*start, *end, *offset, permissions.find('w') != std::string_view::npos, line};
}

// Whether the key stands in the file's first bytes. GGUF's keys come first; kHeaderLimit is far
// above the header of any model.
bool HasShellKey(int fd) {
  std::string bytes;
  for (off_t at = 0; at < kHeaderLimit;) {
    const size_t kept = std::min(bytes.size(), kShellKey.size());
    bytes.erase(0, bytes.size() - kept);
    bytes.resize(kept + kChunk);
    const ssize_t got = pread(fd, bytes.data() + kept, kChunk, at);
    if (got <= 0) return false;  // its end; an unreadable file is seen when weights are read
    bytes.resize(kept + static_cast<size_t>(got));
    if (bytes.find(kShellKey) != std::string::npos) return true;
    at += got;
  }
  return false;
}

Error NotMapped(std::string message) {
  return {ErrorCode::kNotFound, Reason::kUnsupportedModel, std::move(message)};
}

}  // namespace

Result<Mapping> FindMapping(std::string_view maps, uintptr_t address, uint64_t size) {
  std::optional<Mapping> found;
  uintptr_t covered = address;  // up to here
  while (!maps.empty()) {
    const size_t newline = std::min(maps.find('\n'), maps.size());
    const std::optional<MapsLine> line = ParseMapsLine(maps.substr(0, newline));
    maps.remove_prefix(std::min(newline + 1, maps.size()));
    if (!line || covered < line->start || covered >= line->end) continue;
    // Locked and unlocked pages of one mapping stand on lines of their own.
    const uint64_t offset = line->offset + (covered - line->start);
    const bool goes_on =
        !found || (found->path == line->path && found->offset + (covered - address) == offset);
    if (!goes_on || line->writable || !line->path.starts_with('/')) break;
    if (!found) found = Mapping{std::string(line->path), offset};
    covered = line->end;
    if (covered - address >= size) return *std::move(found);
  }
  return NotMapped("the data lie in no read-only mapping of a file");
}

std::vector<std::string> ShardPaths(const std::string& path) {
  if (path.size() <= kShardSuffix) return {path};
  const std::string_view suffix = std::string_view(path).substr(path.size() - kShardSuffix);
  const std::optional<uint32_t> number = ParseFiveDigits(suffix.substr(1, 5));
  const std::optional<uint32_t> count = ParseFiveDigits(suffix.substr(10, 5));
  const bool named_so = suffix[0] == '-' && suffix.substr(6, 4) == "-of-" &&
                        suffix.substr(15) == ".gguf" && number && count;
  if (!named_so || *number < 1 || *number > *count || *count > kMaxShards) return {path};
  const std::string stem = path.substr(0, path.size() - kShardSuffix);
  std::vector<std::string> paths;
  for (uint32_t i = 1; i <= *count; ++i) {
    paths.push_back(fmt::format("{}-{:05}-of-{:05}.gguf", stem, i, *count));
  }
  return paths;
}

Result<size_t> ModelFiles::IndexOf(const std::string& path) {
  const auto known = [&] {
    return std::find_if(files_.begin(), files_.end(),
                        [&](const File& file) { return file.path == path; });
  };
  if (known() == files_.end()) {
    for (std::string& shard : ShardPaths(path)) {
      ASSIGN_OR_RETURN(UniqueFd fd, OpenRegularFile(shard, O_RDONLY));
      const bool is_shell = HasShellKey(fd.get());
      files_.push_back({std::move(shard), std::move(fd), is_shell});
    }
  }
  return static_cast<size_t>(known() - files_.begin());
}

Result<FileRange> ModelFiles::Locate(const void* data, uint64_t size) {
  ASSIGN_OR_RETURN(const Mapping mapping,
                   FindMapping(ReadMaps(), reinterpret_cast<uintptr_t>(data), size));
  if (mapping.path.ends_with(kDeleted)) {
    return NotMapped(fmt::format("the mapped file was removed or replaced: {}", mapping.path));
  }
  ASSIGN_OR_RETURN(const size_t index, IndexOf(mapping.path));
  return FileRange{index, mapping.offset, size};
}

Status ModelFiles::Read(const FileRange& range, uint64_t offset, std::span<std::byte> out) const {
  const File& file = files_[range.file];
  if (file.is_shell) {
    return Error{ErrorCode::kFailedPrecondition, Reason::kUnsupportedModel,
                 fmt::format("{} is a shell without expert weights: what moetierd does not compute "
                             "as a whole layer needs the model itself",
                             file.path)};
  }
  size_t done = 0;
  while (done < out.size()) {
    const auto at = static_cast<off_t>(range.offset + offset + done);
    const ssize_t got = pread(file.fd.get(), out.data() + done, out.size() - done, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError(errno, fmt::format("read {} at {}", file.path, at));
    if (got == 0) {
      return Error{ErrorCode::kDataLoss, Reason::kShortRead,
                   fmt::format("read {}: it ends at {}, {} bytes too early", file.path, at,
                               out.size() - done)};
    }
    done += static_cast<size_t>(got);
  }
  return Ok{};
}

std::vector<int> ModelFiles::Descriptors() const {
  std::vector<int> descriptors;
  for (const File& file : files_) descriptors.push_back(file.fd.get());
  return descriptors;
}

}  // namespace moetier::ggml
