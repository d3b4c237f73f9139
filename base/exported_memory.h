#ifndef MOETIER_BASE_EXPORTED_MEMORY_H_
#define MOETIER_BASE_EXPORTED_MEMORY_H_

#include <cstdint>
#include <vector>

#include "base/unique_fd.h"

namespace moetier {

// A device's memory for another process: granules of one size, side by side, a descriptor each. Who
// has one can map that memory, to write too, and it stays allocated until all have let it go.
struct ExportedMemory {
  enum class Kind : uint8_t { kCuda, kHost };  // handles of CUDA's driver; memfds
  Kind kind = Kind::kCuda;
  std::vector<UniqueFd> granules;  // in the order of their addresses
};

}  // namespace moetier

#endif  // MOETIER_BASE_EXPORTED_MEMORY_H_
