#ifndef MOETIER_DAEMON_SCHEDULING_ROUTE_TAP_H_
#define MOETIER_DAEMON_SCHEDULING_ROUTE_TAP_H_

#include "daemon/scheduling/layer_call.h"

namespace moetier {

// Sees what engines route: each call that is answered with an output, in the order of the answers.
// Threads: OnAnswered runs on the executor's thread and must not block.
class RouteTap {
 public:
  enum class Next : uint8_t { kMore, kNoMore };

  virtual ~RouteTap() = default;
  // kNoMore: it is dropped.
  virtual Next OnAnswered(const LayerCall& call, const LayerOutput& output) = 0;
  // It wants no more: it is dropped when another tap is added.
  [[nodiscard]] virtual bool closed() = 0;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_ROUTE_TAP_H_
