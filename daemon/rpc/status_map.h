#ifndef MOETIER_DAEMON_RPC_STATUS_MAP_H_
#define MOETIER_DAEMON_RPC_STATUS_MAP_H_

#include <grpcpp/support/status.h>

#include <optional>

#include "base/result.h"
#include "daemon/transport/layer_request.h"
#include "moetier/v1/common.pb.h"

// The only place that knows gRPC's status type.

namespace moetier {

v1::Reason ToProto(Reason reason);

// A fault for a stream's reply.
v1::Fault ToFault(const Error& error, const FaultPlace& place = {});

// The status of a call; its details (`grpc-status-details-bin`) are a StatusDetails with one Fault.
grpc::Status ToGrpcStatus(const Error& error, const FaultPlace& place = {});

// For clients: the Fault in a status's details. None when it has none, as with statuses that gRPC
// itself made (connection lost, unknown method).
std::optional<v1::Fault> FaultOf(const grpc::Status& status);

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_STATUS_MAP_H_
