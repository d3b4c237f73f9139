#include "daemon/transport/layer_request.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace moetier {
Result<const LayerGeometry*> FindLayer(uint32_t layer, const ModelGeometry& geometry,
                                       FaultPlace& place) {
  const auto found = std::ranges::lower_bound(
      geometry.layers, layer, {}, [](const LayerGeometry& entry) { return Raw(entry.layer); });
  if (found != geometry.layers.end() && Raw(found->layer) == layer) return &*found;
  place.field = "layer";
  if (geometry.layers.empty()) {
    return Error{ErrorCode::kNotFound, Reason::kUnknownLayer,
                 fmt::format("layer = {}: {} has no layers with experts", layer, geometry.name)};
  }
  return Error{
      ErrorCode::kNotFound, Reason::kUnknownLayer,
      fmt::format("layer = {}: {} has experts in {} layers from blk.{} to blk.{}, and not there",
                  layer, geometry.name, geometry.layers.size(), Raw(geometry.layers.front().layer),
                  Raw(geometry.layers.back().layer))};
}

namespace {

Error Invalid(Reason reason, std::string message) {
  return {ErrorCode::kInvalidArgument, reason, std::move(message)};
}

// Marks each id of a row once; the message of a refusal names row, pick and value.
class ExpertIdCheck {
 public:
  explicit ExpertIdCheck(const LayerGeometry& layer) : layer_(layer), seen_(layer.experts, 0) {}

  Status CheckRow(uint32_t row, std::span<const uint32_t> picks, FaultPlace& place) {
    for (size_t pick = 0; pick < picks.size(); ++pick) {
      const uint32_t id = picks[pick];
      if (id < layer_.experts && seen_[id] != row + 1) {
        seen_[id] = row + 1;
        continue;
      }
      place = {.field = "experts", .row = row, .expert = id};
      if (id < layer_.experts) {
        return Invalid(Reason::kDuplicateExpert,
                       fmt::format("experts: row {}, pick {} is {} again; the experts of a row "
                                   "must be distinct",
                                   row, pick, id));
      }
      return Invalid(Reason::kBadExpertId,
                     fmt::format("experts: row {}, pick {} is {}; blk.{} has experts 0..{}", row,
                                 pick, Printed(id), Raw(layer_.layer), layer_.experts - 1));
    }
    return Ok{};
  }

 private:
  // Engines write -1 for "no expert".
  static std::string Printed(uint32_t id) {
    return id > std::numeric_limits<int32_t>::max()
               ? fmt::format("{} ({} as int32)", id, static_cast<int32_t>(id))
               : fmt::format("{}", id);
  }

  const LayerGeometry& layer_;
  std::vector<uint32_t> seen_;  // row + 1 of the last row that picked the expert
};

Status CheckShape(const LayerRequestView& request, const LayerGeometry& layer,
                  const RequestLimits& limits, FaultPlace& place) {
  if (request.rows == 0 || request.rows > limits.max_rows) {
    place.field = "rows";
    return Invalid(Reason::kBadRows,
                   fmt::format("rows = {}: must be 1..{}", request.rows, limits.max_rows));
  }
  const uint32_t max_top_k = std::min(layer.experts, kMaxTopK);
  if (request.top_k == 0 || request.top_k > max_top_k) {
    place.field = "top_k";
    return Invalid(Reason::kBadTopK, fmt::format("top_k = {}: blk.{} takes 1..{}", request.top_k,
                                                 Raw(layer.layer), max_top_k));
  }
  if (request.forced_lane > limits.lanes) {
    place.field = "forced_lane";
    return Invalid(Reason::kBadLane,
                   fmt::format("forced_lane = {}: 0 lets the daemon plan, 1..{} are its lanes",
                               request.forced_lane, limits.lanes));
  }
  return Ok{};
}

// Both factors have passed CheckShape, so that the products stay far below 2^64.
Status CheckPickCount(const LayerRequestView& request, const char* field, size_t size,
                      FaultPlace& place) {
  const uint64_t picks = uint64_t{request.rows} * request.top_k;
  if (size == picks) return Ok{};
  place.field = field;
  return Invalid(Reason::kBadShape, fmt::format("{}: {} values, not rows * top_k = {} * {} = {}",
                                                field, size, request.rows, request.top_k, picks));
}

// After CheckShape.
Status CheckHiddenBytes(const LayerRequestView& request, uint32_t hidden, FaultPlace& place) {
  const std::optional<uint32_t> width = BytesPerValue(static_cast<HiddenType>(request.hidden_type));
  if (!width) {
    place.field = "hidden_type";
    return Invalid(Reason::kBadType,
                   fmt::format("hidden_type = {}: must be DTYPE_F32 (1), DTYPE_F16 (2) or "
                               "DTYPE_BF16 (3)",
                               static_cast<int32_t>(request.hidden_type)));
  }
  const uint64_t bytes = uint64_t{request.rows} * hidden * *width;
  if (request.hidden_bytes != bytes) {
    place.field = "hidden";
    return Invalid(Reason::kBadShape,
                   fmt::format("hidden: {} bytes, not rows * hidden * {} = {} * {} * {} = {}",
                               request.hidden_bytes, *width, request.rows, hidden, *width, bytes));
  }
  return Ok{};
}

Status CheckFinite(std::span<const float> values, uint32_t columns, const char* field,
                   FaultPlace& place) {
  const std::optional<size_t> at = FindNonFinite(values);
  if (!at) return Ok{};
  const auto row = static_cast<uint32_t>(*at / columns);
  place.field = field;
  place.row = row;
  return Invalid(Reason::kNotFinite, fmt::format("{}: row {}, column {} is {}; must be finite",
                                                 field, row, *at % columns, values[*at]));
}

Result<const LayerGeometry*> FindComputable(uint32_t layer, const ModelGeometry& geometry,
                                            FaultPlace& place) {
  ASSIGN_OR_RETURN(const LayerGeometry* found, FindLayer(layer, geometry, place));
  if (found->compute) return found;
  place.field = "layer";
  return Error{ErrorCode::kFailedPrecondition, Reason::kNoKernel,
               fmt::format("layer = {}: its weight type has no kernel here; it can be held and "
                           "leased, not computed",
                           layer)};
}

// After CheckPickCount.
Status CheckPicks(const LayerRequestView& request, const LayerGeometry& layer, FaultPlace& place) {
  ExpertIdCheck ids(layer);
  for (uint32_t row = 0; row < request.rows; ++row) {
    const std::span<const uint32_t> picks =
        request.experts.subspan(size_t{row} * request.top_k, request.top_k);
    RETURN_IF_ERROR(ids.CheckRow(row, picks, place));
  }
  return Ok{};
}

}  // namespace

Result<std::vector<ExpertIndex>> CheckRoutes(const LayerRequestView& request,
                                             const ModelGeometry& geometry,
                                             const RequestLimits& limits, FaultPlace& place) {
  ASSIGN_OR_RETURN(const LayerGeometry* layer, FindLayer(request.layer, geometry, place));
  RETURN_IF_ERROR(CheckShape(request, *layer, limits, place));
  RETURN_IF_ERROR(CheckPickCount(request, "experts", request.experts.size(), place));
  RETURN_IF_ERROR(CheckPicks(request, *layer, place));
  std::vector<ExpertIndex> picks;
  picks.reserve(request.experts.size());
  for (const uint32_t id : request.experts) picks.push_back(static_cast<ExpertIndex>(id));
  return picks;
}

Result<LayerCall> CheckLayerRequest(const LayerRequestView& request, const ModelGeometry& geometry,
                                    const RequestLimits& limits, TimePoint received,
                                    FaultPlace& place) {
  ASSIGN_OR_RETURN(const LayerGeometry* layer, FindComputable(request.layer, geometry, place));
  RETURN_IF_ERROR(CheckShape(request, *layer, limits, place));
  RETURN_IF_ERROR(CheckPickCount(request, "experts", request.experts.size(), place));
  RETURN_IF_ERROR(CheckPickCount(request, "weights", request.weights.size(), place));
  RETURN_IF_ERROR(CheckHiddenBytes(request, geometry.hidden, place));
  RETURN_IF_ERROR(CheckPicks(request, *layer, place));

  LayerCall call;
  call.layer = layer->layer;
  call.rows = request.rows;
  call.top_k = request.top_k;
  call.received = received;
  call.weights.assign(request.weights.begin(), request.weights.end());
  RETURN_IF_ERROR(CheckFinite(call.weights, call.top_k, "weights", place));
  call.hidden = DecodeValues(static_cast<HiddenType>(request.hidden_type),
                             {request.hidden, static_cast<size_t>(request.hidden_bytes)});
  RETURN_IF_ERROR(CheckFinite(call.hidden, geometry.hidden, "hidden", place));
  call.experts.reserve(request.experts.size());
  for (const uint32_t id : request.experts) call.experts.push_back(static_cast<uint16_t>(id));
  if (request.forced_lane != 0) call.forced_lane = request.forced_lane - 1;
  if (request.timeout_us != 0) {
    call.deadline = received + std::chrono::microseconds(request.timeout_us);
  }
  return call;
}

Result<std::vector<ExpertIndex>> CheckExperts(uint32_t layer, std::span<const uint32_t> experts,
                                              const ModelGeometry& geometry, FaultPlace& place) {
  ASSIGN_OR_RETURN(const LayerGeometry* found, FindLayer(layer, geometry, place));
  std::vector<ExpertIndex> indices;
  if (experts.empty()) {
    indices.reserve(found->experts);
    for (uint32_t id = 0; id < found->experts; ++id)
      indices.push_back(static_cast<ExpertIndex>(id));
    return indices;
  }
  ExpertIdCheck ids(*found);
  RETURN_IF_ERROR(ids.CheckRow(0, experts, place));
  indices.reserve(experts.size());
  for (const uint32_t id : experts) indices.push_back(static_cast<ExpertIndex>(id));
  return indices;
}

}  // namespace moetier
