#ifndef MOETIER_DAEMON_TRANSPORT_MODEL_CHOICE_H_
#define MOETIER_DAEMON_TRANSPORT_MODEL_CHOICE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "daemon/scheduling/daemon_core.h"

// Which loaded model a session is attached to.

namespace moetier {

// The model with its hold. An empty name means the only model there is. kNotFound or
// kInvalidArgument, kUnknownModel; kUnavailable with kLoading or kDraining.
Result<ModelInfo> ChooseModel(DaemonCore& core, const std::string& name);

// The first model with that fingerprint that serves, of those that no client brought, with its
// hold; none when there is none.
std::optional<ModelInfo> FindServing(DaemonCore& core, uint64_t fingerprint);

}  // namespace moetier

#endif  // MOETIER_DAEMON_TRANSPORT_MODEL_CHOICE_H_
