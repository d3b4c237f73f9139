#include "adapters/cpp/record_layer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace moetier {
namespace {

constexpr std::array<std::string_view, kernels::kPartRoles> kRoles = {
    "gate", "up", "down", "gate_bias", "up_bias", "down_bias"};  // by PartRole

std::optional<kernels::WeightType> TypeNamed(std::string_view name) {
  for (uint32_t number = 0; number < kernels::kWeightTypeNumbers; ++number) {
    const kernels::WeightTypeInfo* info = kernels::FindWeightType(number);
    if (info != nullptr && info->name == name) return static_cast<kernels::WeightType>(number);
  }
  return std::nullopt;
}

std::optional<kernels::Activation> ActivationNamed(std::string_view name) {
  if (name == "swiglu") return kernels::Activation::kSwiGlu;
  if (name == "geglu") return kernels::Activation::kGeGlu;
  if (name == "swiglu_clamped") return kernels::Activation::kSwiGluClamped;
  return std::nullopt;
}

const v1::RecordPart* FindPart(const v1::LayerGeometry& layer, std::string_view role) {
  const auto found = std::ranges::find_if(
      layer.parts(), [role](const v1::RecordPart& part) { return part.role() == role; });
  return found == layer.parts().end() ? nullptr : &*found;
}

bool Same(const kernels::RecordPart& ours, const v1::RecordPart& theirs) {
  const bool rows16 = ours.layout == kernels::PartLayout::kRows16;
  return TypeNamed(theirs.type()) == ours.type &&
         theirs.layout() == (rows16 ? "rows16" : "source") && theirs.rows() == ours.rows &&
         theirs.columns() == ours.columns && theirs.offset() == ours.offset &&
         theirs.stride() == ours.stride;
}

bool Same(const kernels::RecordLayout& ours, const v1::LayerGeometry& theirs) {
  if (ours.bytes != theirs.record_bytes()) return false;
  for (size_t role = 0; role < kernels::kPartRoles; ++role) {
    const v1::RecordPart* part = FindPart(theirs, kRoles[role]);
    if (ours.parts[role].has_value() != (part != nullptr)) return false;
    if (part != nullptr && !Same(*ours.parts[role], *part)) return false;
  }
  return true;
}

}  // namespace

Result<RecordLayer> ReadRecordLayer(const v1::Model& model, const v1::LayerGeometry& layer) {
  const auto unknown = [&](std::string_view what) {
    return Error{ErrorCode::kFailedPrecondition, Reason::kUnsupportedModel,
                 fmt::format("layer {}: {}", layer.layer(), what)};
  };
  if (model.layout_version() != kernels::kLayoutVersion) {
    return unknown(
        fmt::format("records of layout {}; this program knows layout {}: build it with "
                    "the daemon's version",
                    model.layout_version(), kernels::kLayoutVersion));
  }
  const auto gate = TypeNamed(layer.gate_type());
  const auto up = TypeNamed(layer.up_type());
  const auto down = TypeNamed(layer.down_type());
  const auto activation = ActivationNamed(layer.activation());
  if (!layer.compute() || !gate || !up || !down || !activation) {
    return unknown("it has a type or an activation without a kernel");
  }
  const kernels::ExpertShape shape{.hidden = model.geometry().hidden(),
                                   .ffn = layer.ffn(),
                                   .activation = *activation,
                                   .gate = *gate,
                                   .up = *up,
                                   .down = *down,
                                   .gate_bias = FindPart(layer, "gate_bias") != nullptr,
                                   .up_bias = FindPart(layer, "up_bias") != nullptr,
                                   .down_bias = FindPart(layer, "down_bias") != nullptr};
  for (const auto form : {kernels::RecordForm::kRows16, kernels::RecordForm::kSource}) {
    ASSIGN_OR_RETURN(const kernels::RecordLayout layout, kernels::MakeRecordLayout(shape, form));
    if (Same(layout, layer)) return RecordLayer{.shape = shape, .layout = layout};
  }
  return unknown("its records' parts lie elsewhere than this program's would");
}

}  // namespace moetier
