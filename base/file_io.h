#ifndef MOETIER_BASE_FILE_IO_H_
#define MOETIER_BASE_FILE_IO_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace moetier {

// Reads exactly `out.size()` bytes at `offset`, across EINTR and partial reads. `name` is for the
// message. The end of the file comes as kDataLoss, kShortRead with offset and length.
Status ReadExactly(int fd, uint64_t offset, std::span<std::byte> out, std::string_view name);

// The whole regular file as text. Stops with kTooLarge once it has read more than `limit`.
Result<std::string> ReadTextFile(const std::string& path, Bytes limit);

}  // namespace moetier

#endif  // MOETIER_BASE_FILE_IO_H_
