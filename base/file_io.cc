#include "base/file_io.h"

#include <unistd.h>

#include <cerrno>

#include "base/regular_file.h"
#include "base/text_size.h"

namespace moetier {

Status ReadExactly(int fd, uint64_t offset, std::span<std::byte> out, std::string_view name) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        ::pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return ErrnoError(errno, fmt::format("read {} bytes at {} of {}", out.size(), offset, name));
    }
    if (got == 0) {
      return Error{ErrorCode::kDataLoss, Reason::kShortRead,
                   fmt::format("{} ends at byte {}, {} bytes at {} were expected", name,
                               offset + done, out.size(), offset)};
    }
    done += static_cast<size_t>(got);
  }
  return Ok{};
}

Result<std::string> ReadTextFile(const std::string& path, Bytes limit) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenRegularFile(path, O_RDONLY));
  std::string text;
  char chunk[4096];
  // Grows as it reads: the files of /proc and /sys report size 0.
  while (true) {
    const ssize_t got = ::read(fd.get(), chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError(errno, fmt::format("read {}", path));
    if (got == 0) return text;
    text.append(chunk, static_cast<size_t>(got));
    if (text.size() > limit.count()) {
      return Error{ErrorCode::kInvalidArgument, Reason::kTooLarge,
                   fmt::format("{} is larger than {}", path, FormatSize(limit))};
    }
  }
}

}  // namespace moetier
