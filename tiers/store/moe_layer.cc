#include "tiers/store/moe_layer.h"

#include <string>
#include <utility>

#include "tiers/store/gguf_cursor.h"

namespace moetier {
namespace {

using kernels::PartRole;
using kernels::WeightType;
using Shape = std::array<uint64_t, 4>;

Error Unsupported(Reason reason, std::string message) {
  return Error{ErrorCode::kFailedPrecondition, reason, std::move(message)};
}

std::string ShapeText(const Shape& shape) {
  std::string text = fmt::format("{} x {}", shape[0], shape[1]);
  for (size_t i = 2; i < shape.size() && (shape[i] != 1 || i == 2); ++i) {
    text += fmt::format(" x {}", shape[i]);
  }
  return text;
}

Status CheckShape(const GgufTensor& tensor, const Shape& expected, std::string_view meaning) {
  if (tensor.shape == expected) return Ok{};
  return Unsupported(Reason::kUnsupportedModel,
                     fmt::format("{} is {}, expected {} ({})", tensor.name, ShapeText(tensor.shape),
                                 ShapeText(expected), meaning));
}

Status CheckPresence(uint32_t layer, const LayerTensors& tensors) {
  const auto missing = [&](std::string_view what) {
    return Unsupported(Reason::kUnsupportedModel,
                       fmt::format("blk.{} has expert tensors but no {}", layer, what));
  };
  const bool any = tensors.has(TensorRole::kGate) || tensors.has(TensorRole::kUp) ||
                   tensors.has(TensorRole::kDown) || tensors.has(TensorRole::kGateUp);
  if (!any) {
    return Unsupported(
        Reason::kUnsupportedModel,
        fmt::format("blk.{} has a router or expert biases but no ffn_*_exps.weight", layer));
  }
  if (!tensors.has(TensorRole::kDown)) return missing("ffn_down_exps.weight");
  if (tensors.has(TensorRole::kGateUp)) {
    if (tensors.has(TensorRole::kGate) || tensors.has(TensorRole::kUp)) {
      return Unsupported(
          Reason::kUnsupportedModel,
          fmt::format("blk.{} has ffn_gate_up_exps and ffn_gate_exps or ffn_up_exps besides",
                      layer));
    }
    if (tensors.has(TensorRole::kGateBias) || tensors.has(TensorRole::kUpBias)) {
      return Unsupported(Reason::kUnsupportedModel,
                         fmt::format("blk.{} has ffn_gate_up_exps.weight but ffn_gate_exps.bias or "
                                     "ffn_up_exps.bias",
                                     layer));
    }
    return Ok{};
  }
  if (tensors.has(TensorRole::kGateUpBias)) return missing("ffn_gate_up_exps.weight for its bias");
  if (!tensors.has(TensorRole::kGate)) return missing("ffn_gate_exps.weight");
  if (!tensors.has(TensorRole::kUp)) return missing("ffn_up_exps.weight");
  return Ok{};
}

struct Sizes {
  uint64_t hidden = 0;
  uint64_t ffn = 0;
  uint64_t experts = 0;
};

Status CheckLimits(const GgufTensor& tensor, const Sizes& sizes) {
  const auto above = [&](std::string_view what, uint64_t value, uint64_t limit) {
    return Unsupported(Reason::kUnsupportedModel, fmt::format("{}: {} is {}, the limit is {}",
                                                              tensor.name, what, value, limit));
  };
  if (sizes.hidden > kernels::kMaxHidden) return above("hidden", sizes.hidden, kernels::kMaxHidden);
  if (sizes.ffn > kernels::kMaxFfn) return above("ffn", sizes.ffn, kernels::kMaxFfn);
  if (sizes.experts > kMaxExperts) return above("experts", sizes.experts, kMaxExperts);
  return Ok{};
}

// The sizes that gate (or gate_up) has; the other tensors are held against them.
Result<Sizes> ReadSizes(const LayerTensors& tensors) {
  const bool fused = tensors.has(TensorRole::kGateUp);
  const GgufTensor& gate = *tensors.at(fused ? TensorRole::kGateUp : TensorRole::kGate);
  if (gate.shape[3] != 1 || (fused && gate.shape[1] % 2 != 0)) {
    return Unsupported(Reason::kUnsupportedModel,
                       fmt::format("{} is {}, expected hidden x {} x experts", gate.name,
                                   ShapeText(gate.shape), fused ? "2 ffn" : "ffn"));
  }
  const Sizes sizes{gate.shape[0], fused ? gate.shape[1] / 2 : gate.shape[1], gate.shape[2]};
  RETURN_IF_ERROR(CheckLimits(gate, sizes));
  return sizes;
}

Status CheckShapes(const LayerTensors& tensors, const Sizes& sizes) {
  struct Expected {
    TensorRole role;
    Shape shape;
    std::string_view meaning;
  };
  const auto [hidden, ffn, experts] = sizes;
  const Expected all[] = {
      {TensorRole::kUp, {hidden, ffn, experts, 1}, "hidden x ffn x experts, as gate"},
      {TensorRole::kDown, {ffn, hidden, experts, 1}, "ffn x hidden x experts"},
      {TensorRole::kGateBias, {ffn, experts, 1, 1}, "ffn x experts"},
      {TensorRole::kUpBias, {ffn, experts, 1, 1}, "ffn x experts"},
      {TensorRole::kDownBias, {hidden, experts, 1, 1}, "hidden x experts"},
      {TensorRole::kGateUpBias, {2 * ffn, experts, 1, 1}, "2 ffn x experts"},
      {TensorRole::kRouter, {hidden, experts, 1, 1}, "hidden x experts"},
      {TensorRole::kRouterBias, {experts, 1, 1, 1}, "experts"},
      {TensorRole::kChoiceBias, {experts, 1, 1, 1}, "experts"},
  };
  for (const Expected& expected : all) {
    const GgufTensor* tensor = tensors.at(expected.role);
    if (tensor == nullptr) continue;
    RETURN_IF_ERROR(CheckShape(*tensor, expected.shape, expected.meaning));
  }
  return Ok{};
}

// Biases enter the record as f32; weights need a kernel, or must only be held.
Result<bool> CheckTypes(const LayerTensors& tensors, kernels::RecordForm form) {
  for (const TensorRole role : {TensorRole::kGateBias, TensorRole::kUpBias, TensorRole::kDownBias,
                                TensorRole::kGateUpBias}) {
    const GgufTensor* tensor = tensors.at(role);
    if (tensor != nullptr && tensor->ggml_type != Raw(WeightType::kF32)) {
      return Unsupported(Reason::kUnsupportedType,
                         fmt::format("{} is {}, expert biases must be F32", tensor->name,
                                     kernels::FindWeightType(tensor->ggml_type)->name));
    }
  }
  bool compute = true;
  for (const TensorRole role :
       {TensorRole::kGate, TensorRole::kUp, TensorRole::kGateUp, TensorRole::kDown}) {
    const GgufTensor* tensor = tensors.at(role);
    if (tensor == nullptr) continue;
    const kernels::WeightTypeInfo* info = kernels::FindWeightType(tensor->ggml_type);
    if (info->has_kernel) continue;
    if (form == kernels::RecordForm::kRows16) {
      return Unsupported(Reason::kUnsupportedType,
                         fmt::format("{} is {}, for which there is no kernel; a store of the "
                                     "source layout can hold it, without compute",
                                     tensor->name, info->name));
    }
    compute = false;
  }
  return compute;
}

PartSource WholeTensor(const GgufTensor& tensor, uint64_t experts) {
  const uint64_t bytes = tensor.bytes / experts;
  return {tensor.shard, tensor.offset, bytes, bytes, tensor.name};
}

// Half 0 or 1 of every expert of a fused tensor.
PartSource HalfTensor(const GgufTensor& tensor, uint64_t experts, uint64_t half) {
  const uint64_t stride = tensor.bytes / experts;
  return {tensor.shard, tensor.offset + half * (stride / 2), stride, stride / 2, tensor.name};
}

MoeLayerSource MakeSource(const LayerTensors& tensors, uint64_t experts) {
  MoeLayerSource source;
  const auto put = [&](PartRole part, TensorRole whole, TensorRole fused, uint64_t half) {
    auto& place = source.parts[static_cast<size_t>(part)];
    if (tensors.has(whole)) place = WholeTensor(*tensors.at(whole), experts);
    if (fused != whole && tensors.has(fused)) {
      place = HalfTensor(*tensors.at(fused), experts, half);
    }
  };
  put(PartRole::kGate, TensorRole::kGate, TensorRole::kGateUp, 0);
  put(PartRole::kUp, TensorRole::kUp, TensorRole::kGateUp, 1);
  put(PartRole::kDown, TensorRole::kDown, TensorRole::kDown, 0);
  put(PartRole::kGateBias, TensorRole::kGateBias, TensorRole::kGateUpBias, 0);
  put(PartRole::kUpBias, TensorRole::kUpBias, TensorRole::kGateUpBias, 1);
  put(PartRole::kDownBias, TensorRole::kDownBias, TensorRole::kDownBias, 0);
  const auto copy = [&](TensorRole role) {
    return tensors.has(role) ? std::optional(*tensors.at(role)) : std::nullopt;
  };
  source.router = {copy(TensorRole::kRouter), copy(TensorRole::kChoiceBias),
                   copy(TensorRole::kRouterBias)};
  return source;
}

kernels::ExpertShape MakeShape(const LayerTensors& tensors, const Sizes& sizes,
                               kernels::Activation activation) {
  const auto type = [&](TensorRole whole) {
    const TensorRole role = tensors.has(whole) ? whole : TensorRole::kGateUp;
    return static_cast<WeightType>(tensors.at(role)->ggml_type);
  };
  const bool fused_bias = tensors.has(TensorRole::kGateUpBias);
  return {.hidden = static_cast<uint32_t>(sizes.hidden),
          .ffn = static_cast<uint32_t>(sizes.ffn),
          .activation = activation,
          .gate = type(TensorRole::kGate),
          .up = type(TensorRole::kUp),
          .down = type(TensorRole::kDown),
          .gate_bias = fused_bias || tensors.has(TensorRole::kGateBias),
          .up_bias = fused_bias || tensors.has(TensorRole::kUpBias),
          .down_bias = tensors.has(TensorRole::kDownBias)};
}

}  // namespace

Result<MoeLayer> MakeMoeLayer(uint32_t layer, const LayerTensors& tensors,
                              kernels::Activation activation, kernels::RecordForm form) {
  RETURN_IF_ERROR(CheckPresence(layer, tensors));
  ASSIGN_OR_RETURN(const Sizes sizes, ReadSizes(tensors));
  RETURN_IF_ERROR(CheckShapes(tensors, sizes));
  MoeLayer made;
  ASSIGN_OR_RETURN(made.geometry.compute, CheckTypes(tensors, form));
  made.geometry.layer = LayerIndex{static_cast<uint16_t>(layer)};
  made.geometry.experts = static_cast<uint32_t>(sizes.experts);
  made.geometry.shape = MakeShape(tensors, sizes, activation);
  ASSIGN_OR_RETURN(made.geometry.record, kernels::MakeRecordLayout(made.geometry.shape, form));
  made.source = MakeSource(tensors, sizes.experts);
  return made;
}

}  // namespace moetier
