#ifndef MOETIER_DAEMON_RPC_LAYER_MESSAGES_H_
#define MOETIER_DAEMON_RPC_LAYER_MESSAGES_H_

#include <string>

#include "daemon/scheduling/layer_call.h"
#include "moetier/v1/experts.pb.h"

namespace moetier {

v1::Timing ToProto(const CallTiming& timing);

// Writes an output into an empty `result`.
void FillResult(const LayerOutput& output, const std::string& arithmetic, v1::LayerResult& result);

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_LAYER_MESSAGES_H_
