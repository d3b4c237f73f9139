#ifndef MOETIER_TIERS_DEVICE_EXPORTED_SLOT_H_
#define MOETIER_TIERS_DEVICE_EXPORTED_SLOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/unique_fd.h"

namespace moetier {

// The memory of one slot on a device, for another process: whole granules, which neighbouring slots
// of the model share. Who has a descriptor can also write there, and keeps the memory.
struct ExportedSlot {
  enum class Kind : uint8_t { kCuda, kHost };  // a handle of CUDA's driver; a memfd
  Kind kind = Kind::kCuda;
  std::vector<UniqueFd> granules;  // in the order of their addresses
  Bytes granule;                   // of each
  Bytes offset;                    // of the slot's first byte, in the first granule
  std::string device;              // by UUID
};

}  // namespace moetier

#endif  // MOETIER_TIERS_DEVICE_EXPORTED_SLOT_H_
