#ifndef MOETIER_DAEMON_RPC_REQUEST_VALIDATION_H_
#define MOETIER_DAEMON_RPC_REQUEST_VALIDATION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "daemon/rpc/status_map.h"
#include "daemon/scheduling/layer_call.h"
#include "moetier/v1/experts.pb.h"
#include "tiers/store/model_geometry.h"

namespace moetier {

struct RequestLimits {
  uint32_t max_rows = 0;
  uint32_t lanes = 0;  // forced_lane is 0..lanes
};

// Turns a layer message into a call, or says what is wrong with it: kInvalidArgument (kNotFound for
// a layer without experts, kFailedPrecondition kNoKernel for one that cannot be computed), with
// field, row and value in the message and in `place`. Pure; any bytes may come in, and nothing is
// allocated before all lengths agree with the geometry. The caller sets model, session and control.
Result<LayerCall> ValidateLayerRequest(const v1::LayerRequest& request,
                                       const ModelGeometry& geometry, const RequestLimits& limits,
                                       TimePoint received, FaultPlace& place);

// The experts of one layer as an operator names them: none means all of them. kInvalidArgument,
// kBadExpertId or kDuplicateExpert; kNotFound, kUnknownLayer.
Result<std::vector<ExpertIndex>> ValidateExperts(uint32_t layer, std::span<const uint32_t> experts,
                                                 const ModelGeometry& geometry, FaultPlace& place);

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_REQUEST_VALIDATION_H_
