#ifndef MOETIER_DAEMON_DAEMON_OPTIONS_H_
#define MOETIER_DAEMON_DAEMON_OPTIONS_H_

#include <spdlog/common.h>

#include "config/config.h"
#include "daemon/fastlane/fast_lane_server.h"
#include "daemon/rpc/rpc_server.h"
#include "daemon/scheduling/expert_core.h"
#include "daemon/scheduling/on_demand_models.h"

namespace moetier {

// From the configuration to each class's own options: the only place that sees both.
ExpertCore::Options CoreOptions(const DaemonConfig& config);
ModelOptions ModelOptionsFor(const ModelConfig& model);
OnDemandModels::Options OnDemandOptions(const DaemonConfig& config);
// Without the version and the reload, which main knows.
RpcServer::Options ServerOptions(const DaemonConfig& config);
// Without the version and the resolver of files.
FastLaneServer::Options FastLaneOptions(const DaemonConfig& config);
spdlog::level::level_enum SpdlogLevel(LogLevel level);

}  // namespace moetier

#endif  // MOETIER_DAEMON_DAEMON_OPTIONS_H_
