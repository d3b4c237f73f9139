#include "daemon/rpc/residency_validation.h"

#include <fmt/core.h>

#include <string_view>
#include <unordered_set>

namespace moetier {
namespace {

Status CheckCount(int count, int least, const char* field, FaultPlace& place) {
  if (count >= least && static_cast<size_t>(count) <= kMaxResidencyItems) return Ok{};
  place = {.field = field};
  return Error{ErrorCode::kInvalidArgument, count < least ? Reason::kBadShape : Reason::kTooLarge,
               fmt::format("{}: {} of them; one call takes {}..{}", field, count, least,
                           kMaxResidencyItems)};
}

Error WithoutKeys(const char* field, FaultPlace& place) {
  place = {.field = field};
  return {ErrorCode::kInvalidArgument, Reason::kBadShape,
          fmt::format("{}: it is about the leases on keys, and the call names none", field)};
}

std::vector<LeaseId> LeaseIds(const google::protobuf::RepeatedField<uint64_t>& leases) {
  std::vector<LeaseId> ids;
  ids.reserve(static_cast<size_t>(leases.size()));
  for (const uint64_t lease : leases) ids.push_back(LeaseId{lease});
  return ids;
}

std::string_view KindText(PoolKind kind) {
  switch (kind) {
    case PoolKind::kVram:
      return "a device's memory";
    case PoolKind::kRam:
      return "RAM";
    case PoolKind::kNvme:
      return "a drive";
  }
  return "";
}

}  // namespace

Result<std::vector<ExpertKey>> ValidateKeys(
    const google::protobuf::RepeatedPtrField<v1::ExpertKey>& keys, ModelId model,
    const ModelGeometry& geometry, FaultPlace& place) {
  RETURN_IF_ERROR(CheckCount(keys.size(), 1, "keys", place));
  std::vector<ExpertKey> checked;
  checked.reserve(static_cast<size_t>(keys.size()));
  std::unordered_set<ExpertKey> seen;
  for (const v1::ExpertKey& key : keys) {
    Result<const LayerGeometry*> layer = FindLayer(key.layer(), geometry, place);
    place = {.field = "keys", .expert = key.expert()};
    if (!layer) {
      layer.error().message = fmt::format("keys[{}]: {}", checked.size(), layer.error().message);
      return std::move(layer).error();
    }
    if (key.expert() >= (*layer)->experts) {
      return Error{ErrorCode::kInvalidArgument, Reason::kBadExpertId,
                   fmt::format("keys[{}]: expert {}; blk.{} has experts 0..{}", checked.size(),
                               key.expert(), key.layer(), (*layer)->experts - 1)};
    }
    checked.push_back({.model = model,
                       .layer = (*layer)->layer,
                       .expert = static_cast<ExpertIndex>(key.expert())});
    if (seen.insert(checked.back()).second) continue;
    return Error{ErrorCode::kInvalidArgument, Reason::kDuplicateExpert,
                 fmt::format("keys[{}]: {} is named before; a call names each key once",
                             checked.size() - 1, ToString(checked.back()))};
  }
  place = {};
  return checked;
}

Result<ResidencyCalls::ReleaseRequest> ValidateRelease(const v1::ReleaseRequest& request,
                                                       ModelId model, const ModelGeometry& geometry,
                                                       std::span<const PoolKind> pools,
                                                       FaultPlace& place) {
  ResidencyCalls::ReleaseRequest checked;
  if (request.keys().empty()) {
    if (request.has_pool()) return WithoutKeys("pool", place);
    if (!request.kept().empty()) return WithoutKeys("kept", place);
    RETURN_IF_ERROR(CheckCount(request.leases_size(), 1, "leases", place));
    checked.leases = LeaseIds(request.leases());
    return checked;
  }
  RETURN_IF_ERROR(CheckCount(request.kept_size(), 0, "kept", place));
  ASSIGN_OR_RETURN(checked.keys, ValidateKeys(request.keys(), model, geometry, place));
  // Each alone first: the sum of two sizes may not fit.
  RETURN_IF_ERROR(CheckCount(request.leases_size(), 0, "leases", place));
  RETURN_IF_ERROR(CheckCount(request.leases_size() + request.keys_size(), 0, "leases", place));
  if (request.pool().has_pool()) {
    ASSIGN_OR_RETURN(checked.pool, ValidatePool(request.pool().pool(), pools, place));
  }
  checked.leases = LeaseIds(request.leases());
  checked.kept = LeaseIds(request.kept());
  return checked;
}

Result<PoolId> ValidatePool(uint32_t pool, std::span<const PoolKind> pools, FaultPlace& place) {
  if (pool < pools.size()) return static_cast<PoolId>(pool);
  place = {.field = "pool"};
  return Error{ErrorCode::kInvalidArgument, Reason::kBadPool,
               fmt::format("pool = {}: the grant lists pools 0..{}", pool, pools.size() - 1)};
}

Result<PoolId> ValidatePool(uint32_t pool, PoolKind wanted, std::span<const PoolKind> pools,
                            FaultPlace& place) {
  ASSIGN_OR_RETURN(const PoolId found, ValidatePool(pool, pools, place));
  if (pools[pool] == wanted) return found;
  place = {.field = "pool"};
  return Error{ErrorCode::kInvalidArgument, Reason::kBadPool,
               fmt::format("pool = {}: it is {}, this call fills {}", pool, KindText(pools[pool]),
                           KindText(wanted))};
}

}  // namespace moetier
