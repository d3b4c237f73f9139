#ifndef MOETIER_DAEMON_CTL_STATUS_VIEW_H_
#define MOETIER_DAEMON_CTL_STATUS_VIEW_H_

#include <chrono>
#include <string>

#include "moetier/v1/operator.pb.h"

namespace moetier {

// Two statuses of one daemon and the time between them: rates come from their differences.
struct StatusInterval {
  const v1::StatusReply* before = nullptr;
  std::chrono::duration<double> length{};
};

// The status as a page of text. With an interval of the same daemon life, rates and hit rates are
// of the interval; else there are no rates, and hit rates are since the start.
std::string RenderStatus(const v1::StatusReply& now, const StatusInterval& interval = {});

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_STATUS_VIEW_H_
