#ifndef MOETIER_TIERS_DEVICE_EXPORTED_SLOT_H_
#define MOETIER_TIERS_DEVICE_EXPORTED_SLOT_H_

#include <string>

#include "base/bytes.h"
#include "base/exported_memory.h"

namespace moetier {

// The memory of one slot on a device, for another process: whole granules, which neighbouring slots
// of the model share.
struct ExportedSlot {
  ExportedMemory memory;
  Bytes granule;       // of each
  Bytes offset;        // of the slot's first byte, in the first granule
  std::string device;  // by UUID
};

}  // namespace moetier

#endif  // MOETIER_TIERS_DEVICE_EXPORTED_SLOT_H_
