#ifndef MOETIER_DAEMON_RPC_HEAT_MESSAGES_H_
#define MOETIER_DAEMON_RPC_HEAT_MESSAGES_H_

#include <string>

#include "base/result.h"
#include "moetier/v1/operator.pb.h"
#include "tiers/store/model_heat.h"

namespace moetier {

v1::Heat ToProto(const ModelHeat& heat, const std::string& model);

// kInvalidArgument, kUnknownLayer for a layer that no model has. Whether it fits a model is the
// core's to check.
Result<ModelHeat> FromProto(const v1::Heat& message);

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_HEAT_MESSAGES_H_
