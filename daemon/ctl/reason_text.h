#ifndef MOETIER_DAEMON_CTL_REASON_TEXT_H_
#define MOETIER_DAEMON_CTL_REASON_TEXT_H_

#include <moetier/v1/common.pb.h>

#include <string>

namespace moetier {

// "BAD_ROWS"; the number for a reason of a newer daemon.
std::string ReasonText(v1::Reason reason);

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_REASON_TEXT_H_
