#include "daemon/rpc/residency_validation.h"

#include <fmt/core.h>

#include <string_view>
#include <unordered_set>

namespace moetier {
namespace {

Status CheckCount(int count, const char* field, FaultPlace& place) {
  if (count >= 1 && static_cast<size_t>(count) <= kMaxResidencyItems) return Ok{};
  place = {.field = field};
  return Error{
      ErrorCode::kInvalidArgument, count < 1 ? Reason::kBadShape : Reason::kTooLarge,
      fmt::format("{}: {} of them; one call takes 1..{}", field, count, kMaxResidencyItems)};
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
  RETURN_IF_ERROR(CheckCount(keys.size(), "keys", place));
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

Result<std::vector<LeaseId>> ValidateLeases(const google::protobuf::RepeatedField<uint64_t>& leases,
                                            FaultPlace& place) {
  RETURN_IF_ERROR(CheckCount(leases.size(), "leases", place));
  std::vector<LeaseId> ids;
  ids.reserve(static_cast<size_t>(leases.size()));
  for (const uint64_t lease : leases) ids.push_back(LeaseId{lease});
  return ids;
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
