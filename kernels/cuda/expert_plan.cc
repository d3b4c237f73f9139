#include "kernels/cuda/expert_plan.h"

#include "kernels/rows16.h"

namespace moetier::kernels::cuda {
namespace {

Error Unsupported(std::string message) {
  return {ErrorCode::kFailedPrecondition, Reason::kUnsupportedType, std::move(message)};
}

Result<MatrixPlace> PlaceOf(const RecordLayout& layout, PartRole role) {
  const std::optional<RecordPart>& part = layout.part(role);
  MOE_CHECK(part.has_value(), "an expert without matrix {}", static_cast<int>(role));
  if (part->layout != PartLayout::kRows16) {
    return Unsupported(
        fmt::format("the GPU kernels need rows16 records, and {} has none", Info(part->type).name));
  }
  return MatrixPlace{part->offset, part->stride, GroupBytes(part->type, part->columns)};
}

uint64_t BiasOf(const RecordLayout& layout, PartRole role) {
  const std::optional<RecordPart>& part = layout.part(role);
  return part.has_value() ? part->offset : kNoBias;
}

}  // namespace

Result<ExpertPlan> MakeExpertPlan(const ExpertShape& shape, const RecordLayout& layout) {
  if (shape.gate != shape.up) {
    return Unsupported(fmt::format("the GPU kernels need gate and up of one type, not {} and {}",
                                   Info(shape.gate).name, Info(shape.up).name));
  }
  ASSIGN_OR_RETURN(const MatrixPlace gate, PlaceOf(layout, PartRole::kGate));
  ASSIGN_OR_RETURN(const MatrixPlace up, PlaceOf(layout, PartRole::kUp));
  ASSIGN_OR_RETURN(const MatrixPlace down, PlaceOf(layout, PartRole::kDown));
  return ExpertPlan{.hidden = shape.hidden,
                    .ffn = shape.ffn,
                    .activation = shape.activation,
                    .gate_up = shape.gate,
                    .down = shape.down,
                    .gate = gate,
                    .up = up,
                    .down_place = down,
                    .gate_bias = BiasOf(layout, PartRole::kGateBias),
                    .up_bias = BiasOf(layout, PartRole::kUpBias),
                    .down_bias = BiasOf(layout, PartRole::kDownBias)};
}

}  // namespace moetier::kernels::cuda
