// Any bytes as a LayerRequest or a PinRequest: they are refused, or become a call whose every
// promise to the kernels holds.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>

#include "base/check.h"
#include "daemon/rpc/request_validation.h"
#include "daemon/rpc/status_map.h"
#include "moetier/v1/operator.pb.h"
#include "tests/support/small_model.h"

namespace moetier {
namespace {

constexpr RequestLimits kLimits{.max_rows = 16, .lanes = 2};

void CheckCall(const LayerCall& call, const ModelGeometry& geometry) {
  const auto layer = std::ranges::find(geometry.layers, call.layer, &LayerGeometry::layer);
  MOE_CHECK(layer != geometry.layers.end() && layer->compute, "layer {}", Raw(call.layer));
  const size_t picks = size_t{call.rows} * call.top_k;
  MOE_CHECK(call.rows >= 1 && call.rows <= kLimits.max_rows, "rows {}", call.rows);
  MOE_CHECK(call.top_k >= 1 && call.top_k <= layer->experts, "top_k {}", call.top_k);
  MOE_CHECK(call.hidden.size() == size_t{call.rows} * geometry.hidden, "hidden");
  MOE_CHECK(call.experts.size() == picks && call.weights.size() == picks, "picks");
  MOE_CHECK(!call.forced_lane || *call.forced_lane < kLimits.lanes, "lane");
  for (const float value : call.hidden) MOE_CHECK(std::isfinite(value), "hidden {}", value);
  for (const float value : call.weights) MOE_CHECK(std::isfinite(value), "weight {}", value);
  for (size_t row = 0; row < call.rows; ++row) {
    const auto first = call.experts.begin() + static_cast<ptrdiff_t>(row * call.top_k);
    const std::set<uint16_t> distinct(first, first + static_cast<ptrdiff_t>(call.top_k));
    MOE_CHECK(distinct.size() == call.top_k, "twice in row {}", row);
    MOE_CHECK(*distinct.rbegin() < layer->experts, "expert {}", *distinct.rbegin());
  }
}

void CheckRefusal(const Error& error, const FaultPlace& place) {
  MOE_CHECK(!error.message.empty() && !place.field.empty(), "a refusal names its field");
  const v1::Fault fault = ToFault(error, place);
  const std::optional<v1::Fault> back = FaultOf(ToGrpcStatus(error, place));
  MOE_CHECK(back && back->SerializeAsString() == fault.SerializeAsString(), "fault differs");
}

void TryLayerRequest(std::span<const uint8_t> bytes, const ModelGeometry& geometry) {
  v1::LayerRequest request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  FaultPlace place;
  const Result<LayerCall> call =
      ValidateLayerRequest(request, geometry, kLimits, TimePoint{}, place);
  if (call) {
    CheckCall(*call, geometry);
  } else {
    CheckRefusal(call.error(), place);
  }
}

void TryPinRequest(std::span<const uint8_t> bytes, const ModelGeometry& geometry) {
  v1::PinRequest request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  FaultPlace place;
  const std::span<const uint32_t> named(request.experts().data(),
                                        static_cast<size_t>(request.experts_size()));
  const auto experts = CheckExperts(request.layer(), named, geometry, place);
  if (!experts) return CheckRefusal(experts.error(), place);
  for (const ExpertIndex expert : *experts) MOE_CHECK(Raw(expert) < 8, "expert {}", Raw(expert));
}

}  // namespace
}  // namespace moetier

// The first byte chooses: 0 a pin request, 1 a layer request of a model without layers, else one
// of the small model.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const moetier::ModelGeometry geometry = moetier::SmallGeometry();
  if (size == 0) return 0;
  const std::span<const uint8_t> bytes(data + 1, size - 1);
  if (data[0] == 0) {
    moetier::TryPinRequest(bytes, geometry);
  } else if (data[0] == 1) {
    moetier::TryLayerRequest(bytes, moetier::ModelGeometry{});
  } else {
    moetier::TryLayerRequest(bytes, geometry);
  }
  return 0;
}
