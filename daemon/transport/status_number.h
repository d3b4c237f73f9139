#ifndef MOETIER_DAEMON_TRANSPORT_STATUS_NUMBER_H_
#define MOETIER_DAEMON_TRANSPORT_STATUS_NUMBER_H_

#include <cstdint>

#include "base/reason.h"

namespace moetier {

// gRPC's status number of an error, which every transport sends: 3 INVALID_ARGUMENT and so on.
uint32_t StatusNumber(ErrorCode code);

}  // namespace moetier

#endif  // MOETIER_DAEMON_TRANSPORT_STATUS_NUMBER_H_
