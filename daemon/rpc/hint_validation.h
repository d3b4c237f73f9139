#ifndef MOETIER_DAEMON_RPC_HINT_VALIDATION_H_
#define MOETIER_DAEMON_RPC_HINT_VALIDATION_H_

#include <cstddef>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "daemon/transport/layer_request.h"
#include "moetier/v1/experts.pb.h"
#include "tiers/store/model_geometry.h"

namespace moetier {

inline constexpr size_t kMaxHintedExperts = 1024;  // of one message, over all its layers

// The experts that the hints name, of no model yet, or what is wrong with them: kNotFound for a
// layer without experts, kInvalidArgument for other ids, repeats within a hint, or too many.
// A hint of no experts says nothing.
Result<std::vector<ExpertKey>> ValidateHints(
    const google::protobuf::RepeatedPtrField<v1::LayerHint>& hints, const ModelGeometry& geometry,
    FaultPlace& place);

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_HINT_VALIDATION_H_
