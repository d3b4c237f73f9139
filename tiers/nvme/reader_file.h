#ifndef MOETIER_TIERS_NVME_READER_FILE_H_
#define MOETIER_TIERS_NVME_READER_FILE_H_

#include <functional>
#include <optional>
#include <string>

#include "base/fallback.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "tiers/nvme/create_reader.h"
#include "tiers/nvme/piece_engine.h"

namespace moetier {

// A record file opened for reading, and whether its reads pass the page cache.
struct ReaderFile {
  UniqueFd fd;
  CacheUse cache = CacheUse::kBypassed;
  std::optional<Fallback> fallback;  // kAuto could not have direct I/O
};

// Opens `path` and tries one direct read of its first block. Each file is tried on its own: two
// drives may differ. kDirect makes the refusal an error. `direct_error` is a seam: the errno to
// pretend, or 0.
Result<ReaderFile> OpenReaderFile(const std::string& path, IoMode mode,
                                  const std::function<int(const std::string&)>& direct_error);

// The same of an open descriptor, which is opened anew by its inode, never by a path. Where that is
// not permitted, its own open file is shared: buffered, as a fallback.
Result<ReaderFile> ReopenReaderFile(int fd, const std::string& name, IoMode mode,
                                    const std::function<int(const std::string&)>& direct_error);

}  // namespace moetier

#endif  // MOETIER_TIERS_NVME_READER_FILE_H_
