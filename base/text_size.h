#ifndef MOETIER_BASE_TEXT_SIZE_H_
#define MOETIER_BASE_TEXT_SIZE_H_

#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace moetier {

// "12GiB", "512 MiB", "4096" (bytes), "1.5GB" -> bytes. Binary (KiB MiB GiB TiB) and decimal
// (KB MB GB TB) units; kInvalidArgument names what is allowed.
Result<Bytes> ParseSize(std::string_view text);

// "12.0 GiB", "512 B": three significant digits, binary units.
std::string FormatSize(Bytes size);

}  // namespace moetier

#endif  // MOETIER_BASE_TEXT_SIZE_H_
