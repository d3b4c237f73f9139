#include "tiers/store/moe_model.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "tiers/store/expert_names.h"
#include "tiers/store/gguf_cursor.h"
#include "tiers/store/moe_architectures.h"
#include "tiers/store/moe_layer.h"

namespace moetier {
namespace {

constexpr size_t kMaxNamed = 8;  // unmatched tensors that the message lists

Error Unsupported(std::string message) {
  return Error{ErrorCode::kFailedPrecondition, Reason::kUnsupportedModel, std::move(message)};
}

Error Unmatched(std::span<const std::pair<std::string_view, std::string_view>> tensors) {
  std::string text =
      fmt::format("{} expert tensors cannot be matched; a model is served whole or not at all:",
                  tensors.size());
  for (size_t i = 0; i < tensors.size() && i < kMaxNamed; ++i) {
    text += fmt::format("\n  {}: {}", Printable(tensors[i].first), tensors[i].second);
  }
  if (tensors.size() > kMaxNamed)
    text += fmt::format("\n  and {} more", tensors.size() - kMaxNamed);
  return Unsupported(std::move(text));
}

// Every tensor has a role, is left to the engine, or is an error.
Result<std::map<uint32_t, LayerTensors>> GatherLayers(const GgufModel& gguf) {
  std::map<uint32_t, LayerTensors> layers;
  std::vector<std::pair<std::string_view, std::string_view>> unmatched;
  for (const GgufTensor& tensor : gguf.tensors()) {
    const ClassifiedTensor classified = ClassifyTensor(tensor.name);
    if (classified.role == TensorRole::kEngine) continue;
    if (classified.role == TensorRole::kUnmatched) {
      unmatched.emplace_back(tensor.name, classified.hint);
      continue;
    }
    if (classified.layer >= kMaxLayers) {
      return Unsupported(
          fmt::format("{}: block numbers up to {} are served", tensor.name, kMaxLayers - 1));
    }
    // Names are unique and one name means one role, so nothing is overwritten.
    layers[classified.layer].tensors[static_cast<size_t>(classified.role)] = &tensor;
  }
  if (!unmatched.empty()) return Unmatched(unmatched);
  if (layers.empty()) {
    return Unsupported(
        fmt::format("{} has no expert tensors (blk.N.ffn_*_exps.weight): it is no "
                    "mixture-of-experts model",
                    gguf.shard_paths().front()));
  }
  return layers;
}

// A clamp on SwiGLU other than gpt-oss's own changes every result, so it must not go unseen.
Status CheckClamp(const GgufModel& gguf, const std::string& architecture) {
  const std::string key = architecture + ".swiglu_clamp_exp";
  const GgufValue* value = gguf.Find(key);
  if (value == nullptr) return Ok{};
  bool clamps = gguf.FindNumber(key).value_or(0.0) > 0.0;
  if (const auto* array = std::get_if<GgufArray>(value)) {
    clamps = std::ranges::any_of(array->numbers, [](double limit) { return limit > 0.0; });
  }
  if (!clamps) return Ok{};
  return Unsupported(
      fmt::format("{} limits SwiGLU per layer, which no kernel of ours computes", key));
}

Result<kernels::Activation> ChooseActivation(const std::string& architecture,
                                             const MoeModelOptions& options) {
  const MoeArchitecture* known = FindMoeArchitecture(architecture);
  if (known != nullptr && !known->activation) {
    return Unsupported(
        fmt::format("architecture {} is not served: {}", architecture, known->refusal));
  }
  if (options.activation) return *options.activation;
  if (known != nullptr) return *known->activation;
  return Unsupported(
      fmt::format("architecture {} is unknown, so its activation must be given (swiglu, geglu or "
                  "swiglu-clamped)",
                  Printable(architecture)));
}

RouterScore ChooseRouterScore(const GgufModel& gguf, const std::string& architecture) {
  // llama.cpp's numbers. An unknown one falls back: scores only steer the prefetch.
  switch (gguf.FindUnsigned(architecture + ".expert_gating_func").value_or(0)) {
    case 1:
      return RouterScore::kSoftmax;
    case 2:
      return RouterScore::kSigmoid;
    case 3:
      return RouterScore::kSoftmaxAfterTopK;
    default:
      break;
  }
  const MoeArchitecture* known = FindMoeArchitecture(architecture);
  return known != nullptr ? known->router_score : RouterScore::kSoftmax;
}

// One hidden size for all layers, and the one that the metadata names.
Status CheckHidden(const GgufModel& gguf, ModelGeometry& geometry) {
  const LayerGeometry& first = geometry.layers.front();
  geometry.hidden = first.shape.hidden;
  for (const LayerGeometry& layer : geometry.layers) {
    if (layer.shape.hidden != geometry.hidden) {
      return Unsupported(fmt::format("blk.{} has hidden {}, blk.{} has {}", Raw(layer.layer),
                                     layer.shape.hidden, Raw(first.layer), geometry.hidden));
    }
  }
  // Experts may work on a projection of the hidden rows; its length then has its own key.
  std::string key = geometry.architecture + ".expert_latent_length";
  if (gguf.FindUnsigned(key).value_or(0) == 0) key = geometry.architecture + ".embedding_length";
  const auto named = gguf.FindUnsigned(key);
  if (named && *named != geometry.hidden) {
    return Unsupported(
        fmt::format("{} is {}, the expert tensors have {}", key, *named, geometry.hidden));
  }
  return Ok{};
}

Status ReadTopK(const GgufModel& gguf, ModelGeometry& geometry) {
  const std::string key = geometry.architecture + ".expert_used_count";
  const auto top_k = gguf.FindUnsigned(key);
  if (!top_k) return Unsupported(fmt::format("{} is missing or no unsigned number", key));
  const auto smallest = std::ranges::min_element(geometry.layers, {}, &LayerGeometry::experts);
  const uint64_t limit = std::min<uint64_t>(smallest->experts, kMaxTopK);
  if (*top_k < 1 || *top_k > limit) {
    return Unsupported(
        fmt::format("{} is {}, 1 to {} are allowed (blk.{} has {} experts, the "
                    "limit is {})",
                    key, *top_k, limit, Raw(smallest->layer), smallest->experts, kMaxTopK));
  }
  geometry.top_k = static_cast<uint32_t>(*top_k);
  return Ok{};
}

std::string ModelName(const GgufModel& gguf) {
  const std::string* name = gguf.FindString("general.name");
  if (name != nullptr && !name->empty()) return *name;
  return std::filesystem::path(gguf.shard_paths().front()).stem().string();
}

}  // namespace

Result<MoeModel> ReadMoeModel(const GgufModel& gguf, const MoeModelOptions& options) {
  const std::string* architecture = gguf.FindString("general.architecture");
  if (architecture == nullptr) {
    return Unsupported(
        fmt::format("{}: general.architecture is missing", gguf.shard_paths().front()));
  }
  ASSIGN_OR_RETURN(const auto layers, GatherLayers(gguf));
  ASSIGN_OR_RETURN(const kernels::Activation activation, ChooseActivation(*architecture, options));
  RETURN_IF_ERROR(CheckClamp(gguf, *architecture));
  MoeModel model;
  for (const auto& [number, tensors] : layers) {
    ASSIGN_OR_RETURN(MoeLayer layer, MakeMoeLayer(number, tensors, activation, options.form));
    model.geometry.layers.push_back(layer.geometry);
    model.layers.push_back(std::move(layer.source));
  }
  model.geometry.name = ModelName(gguf);
  model.geometry.architecture = *architecture;
  model.router_score = ChooseRouterScore(gguf, *architecture);
  RETURN_IF_ERROR(CheckHidden(gguf, model.geometry));
  RETURN_IF_ERROR(ReadTopK(gguf, model.geometry));
  AssignSizeClasses(model.geometry);
  return model;
}

}  // namespace moetier
