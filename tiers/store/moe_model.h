#ifndef MOETIER_TIERS_STORE_MOE_MODEL_H_
#define MOETIER_TIERS_STORE_MOE_MODEL_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "kernels/layout.h"
#include "tiers/store/gguf_model.h"
#include "tiers/store/model_geometry.h"

namespace moetier {

// Where one part of every expert of a layer lies in the model file: expert e's bytes are
// [offset + e * stride, + bytes). A fused gate_up tensor gives two of these with one stride.
struct PartSource {
  uint32_t shard = 0;
  uint64_t offset = 0;
  uint64_t stride = 0;
  uint64_t bytes = 0;
  std::string tensor;
};

// A layer's router, kept with the model for prefetch: tensors by name, absent where the model has
// none (`bias` is exp_probs_b, added to the scores for the choice only; `logit_bias` is
// ffn_gate_inp.bias, added before the score function).
struct RouterSource {
  std::optional<GgufTensor> weight;
  std::optional<GgufTensor> bias;
  std::optional<GgufTensor> logit_bias;
};

struct MoeLayerSource {
  std::array<std::optional<PartSource>, kernels::kPartRoles> parts;
  RouterSource router;
};

// The routed experts of a model file, by role. layers[i] belongs to geometry.layers[i].
struct MoeModel {
  ModelGeometry geometry;
  std::vector<MoeLayerSource> layers;
  RouterScore router_score = RouterScore::kSoftmax;
};

struct MoeModelOptions {
  kernels::RecordForm form = kernels::RecordForm::kRows16;
  // For architectures whose activation we do not know; else it is an error to be asked for it.
  std::optional<kernels::Activation> activation = std::nullopt;
};

// Finds expert tensors by exact name and checks every shape. kUnsupportedType (tensor and type)
// when a type has no kernel and the form is rows16; kUnsupportedModel when the file has no experts,
// an expert tensor is left unmatched, or the architecture's activation is unknown.
Result<MoeModel> ReadMoeModel(const GgufModel& gguf, const MoeModelOptions& options);

// xxh3 over the architecture's keys and the expert tensor table (name, type, shape) plus 64 sampled
// 4 KiB blocks of expert bytes, all in the order of tensor names: the same for the same tensors
// whatever their path, order and shards. Reads the shards.
Result<uint64_t> ModelFingerprint(const GgufModel& gguf, const MoeModel& model);
// The same with the shards open, in their order.
Result<uint64_t> ModelFingerprint(const GgufModel& gguf, const MoeModel& model,
                                  std::span<const UniqueFd> shards);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_MOE_MODEL_H_
