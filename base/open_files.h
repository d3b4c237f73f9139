#ifndef MOETIER_BASE_OPEN_FILES_H_
#define MOETIER_BASE_OPEN_FILES_H_

#include <cstdint>

#include "base/result.h"

namespace moetier {

// Raises the process's limit on open files to the hard one. kExhausted, with both numbers and what
// to raise, where even that is below `needed`: libraries that run out of descriptors abort.
Status RaiseOpenFileLimit(uint64_t needed);

}  // namespace moetier

#endif  // MOETIER_BASE_OPEN_FILES_H_
