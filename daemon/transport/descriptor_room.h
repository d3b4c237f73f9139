#ifndef MOETIER_DAEMON_TRANSPORT_DESCRIPTOR_ROOM_H_
#define MOETIER_DAEMON_TRANSPORT_DESCRIPTOR_ROOM_H_

#include "base/result.h"

namespace moetier {

// Whether one more connection may be taken. kExhausted, with the numbers and what to do, when so
// many descriptors are in use that the rest is kept for model files, pages and calls under way.
// `descriptor` is any open one of the process.
Status CheckDescriptorRoom(int descriptor);

}  // namespace moetier

#endif  // MOETIER_DAEMON_TRANSPORT_DESCRIPTOR_ROOM_H_
