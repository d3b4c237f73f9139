#ifndef MOETIER_DAEMON_RPC_RESIDENCY_VALIDATION_H_
#define MOETIER_DAEMON_RPC_RESIDENCY_VALIDATION_H_

#include <cstddef>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "daemon/scheduling/residency_calls.h"
#include "daemon/transport/layer_request.h"
#include "moetier/v1/residency.pb.h"
#include "tiers/store/model_geometry.h"

// What clients ask of the Residency service, checked. Any values may come in. Pure.

namespace moetier {

inline constexpr size_t kMaxResidencyItems = 4096;  // keys or leases of one call

// The keys, as the model's. kInvalidArgument: kBadShape for none, kTooLarge for too many,
// kBadExpertId, kDuplicateExpert; kNotFound, kUnknownLayer.
Result<std::vector<ExpertKey>> ValidateKeys(
    const google::protobuf::RepeatedPtrField<v1::ExpertKey>& keys, ModelId model,
    const ModelGeometry& geometry, FaultPlace& place);

// All but the session. kInvalidArgument: kBadShape for no leases and no keys, and for a pool or
// kept leases without keys; kTooLarge for too many; else as the keys and the pool.
Result<ResidencyCalls::ReleaseRequest> ValidateRelease(const v1::ReleaseRequest& request,
                                                       ModelId model, const ModelGeometry& geometry,
                                                       std::span<const PoolKind> pools,
                                                       FaultPlace& place);

// `pools`: the kind of each pool, by its index. kInvalidArgument, kBadPool.
Result<PoolId> ValidatePool(uint32_t pool, std::span<const PoolKind> pools, FaultPlace& place);
Result<PoolId> ValidatePool(uint32_t pool, PoolKind wanted, std::span<const PoolKind> pools,
                            FaultPlace& place);

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_RESIDENCY_VALIDATION_H_
