#ifndef MOETIER_DAEMON_DAEMON_OPTIONS_H_
#define MOETIER_DAEMON_DAEMON_OPTIONS_H_

#include <spdlog/common.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "daemon/fastlane/fast_lane_server.h"
#include "daemon/rpc/rpc_server.h"
#include "daemon/scheduling/expert_core.h"
#include "daemon/scheduling/on_demand_models.h"
#include "tiers/device/cuda_backend.h"

namespace moetier {

// From SIGTERM to the end, answers included; the units' TimeoutStopSec is above it.
inline constexpr std::chrono::milliseconds kStopGrace{20000};
// Then it ends without what still holds it up; before systemd kills it.
inline constexpr std::chrono::milliseconds kStopLimit{23000};

// From the configuration to each class's own options: the only place that sees both.
ExpertCore::Options CoreOptions(const DaemonConfig& config);
// The GPUs that are to be opened; none when there is to be no GPU.
struct GpusWanted {
  std::vector<GpuChoice> choices;
  ExpertCore::GpuOptions::Want want = ExpertCore::GpuOptions::Want::kIfThere;
};
GpusWanted GpusFor(const DaemonConfig& config);
ModelOptions ModelOptionsFor(const ModelConfig& model);
OnDemandModels::Options OnDemandOptions(const DaemonConfig& config);
RpcDoor::Options DoorOptions(const DaemonConfig& config);
UnixSocketOptions FastLaneSocket(const DaemonConfig& config);
// Without the version and the reload, which main knows.
RpcServer::Options ServerOptions(const DaemonConfig& config);
// Without the version and the resolver of files.
FastLaneServer::Options FastLaneOptions(const DaemonConfig& config);
// The descriptors that sessions and stores may take at once.
uint64_t OpenFilesNeeded(const DaemonConfig& config);
// What can be served but is hardly meant: roots that are not there. Looks at the file system.
std::vector<std::string> OddSettings(const DaemonConfig& config);
// Set where a call of limits.max_rows rows of the model exceeds limits.max_message_bytes.
std::optional<std::string> RowsAboveMessage(const LimitsConfig& limits, const std::string& model,
                                            const ModelGeometry& geometry);
spdlog::level::level_enum SpdlogLevel(LogLevel level);

}  // namespace moetier

#endif  // MOETIER_DAEMON_DAEMON_OPTIONS_H_
