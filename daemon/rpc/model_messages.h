#ifndef MOETIER_DAEMON_RPC_MODEL_MESSAGES_H_
#define MOETIER_DAEMON_RPC_MODEL_MESSAGES_H_

#include "daemon/scheduling/daemon_core.h"
#include "moetier/v1/common.pb.h"
#include "moetier/v1/models.pb.h"

// Plain values of the core as messages.

namespace moetier {

v1::PoolKind ToProto(PoolKind kind);
v1::LaneKind ToProto(LaneKind kind);
v1::StoreKind ToProto(StoreKind kind);
v1::ModelState ToProto(ModelState state);
v1::Pool ToProto(const PoolSnapshot& pool);
v1::Lane ToProto(const LaneSnapshot& lane);
v1::Model ToProto(const ModelInfo& model);
v1::QuarantinedExpert ToProto(const QuarantineSnapshot& expert);
v1::Progress ToProto(const ModelProgress& progress);

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_MODEL_MESSAGES_H_
