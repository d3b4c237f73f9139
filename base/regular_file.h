#ifndef MOETIER_BASE_REGULAR_FILE_H_
#define MOETIER_BASE_REGULAR_FILE_H_

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace moetier {

// What may lie at a path that is opened to be read or written.
enum class FileKinds : uint8_t { kRegular, kRegularOrBlockDevice };

// UniqueFd::Open that never waits: a FIFO, socket, directory or device in the file's place is
// kInvalidArgument, kIo, with the path and what lies there. What is checked is what was opened, so
// nothing can be put in its place in between. `flags` without O_NONBLOCK; nor has the descriptor
// it.
Result<UniqueFd> OpenRegularFile(const std::string& path, int flags,
                                 FileKinds kinds = FileKinds::kRegular, mode_t mode = 0644);

}  // namespace moetier

#endif  // MOETIER_BASE_REGULAR_FILE_H_
