#include "daemon/rpc/hint_validation.h"

#include <span>

namespace moetier {

Result<std::vector<ExpertKey>> ValidateHints(
    const google::protobuf::RepeatedPtrField<v1::LayerHint>& hints, const ModelGeometry& geometry,
    FaultPlace& place) {
  std::vector<ExpertKey> keys;
  for (const v1::LayerHint& hint : hints) {
    if (hint.experts().empty()) continue;
    if (keys.size() + static_cast<size_t>(hint.experts_size()) > kMaxHintedExperts) {
      place = {.field = "hints"};
      return Error{ErrorCode::kInvalidArgument, Reason::kBadShape,
                   fmt::format("hints: more than {} experts", kMaxHintedExperts)};
    }
    const std::span<const uint32_t> named(hint.experts().data(),
                                          static_cast<size_t>(hint.experts_size()));
    Result<std::vector<ExpertIndex>> experts = CheckExperts(hint.layer(), named, geometry, place);
    if (!experts) {
      place.field = "hints";
      place.row.reset();
      experts.error().message = fmt::format("hints: {}", experts.error().message);
      return std::move(experts).error();
    }
    for (const ExpertIndex expert : *experts) {
      keys.push_back(
          {.model = {}, .layer = static_cast<LayerIndex>(hint.layer()), .expert = expert});
    }
  }
  return keys;
}

}  // namespace moetier
