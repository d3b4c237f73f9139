#ifndef MOETIER_DAEMON_RPC_REQUEST_VALIDATION_H_
#define MOETIER_DAEMON_RPC_REQUEST_VALIDATION_H_

#include "base/clock.h"
#include "base/result.h"
#include "daemon/transport/layer_request.h"
#include "moetier/v1/experts.pb.h"

namespace moetier {

// CheckLayerRequest of a protobuf message.
Result<LayerCall> ValidateLayerRequest(const v1::LayerRequest& request,
                                       const ModelGeometry& geometry, const RequestLimits& limits,
                                       TimePoint received, FaultPlace& place);

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_REQUEST_VALIDATION_H_
