#ifndef MOETIER_ADAPTERS_LLAMA_CPP_LAYER_MATCH_H_
#define MOETIER_ADAPTERS_LLAMA_CPP_LAYER_MATCH_H_

#include <optional>
#include <span>
#include <vector>

#include "adapters/llama_cpp/ggml_abi.h"
#include "adapters/llama_cpp/operation.h"
#include "kernels/expert_shape.h"

namespace moetier::ggml {

// The experts of one layer as a graph computes them: gate and up (or both in one), biases, the
// activation, down, the router's weights and the sum over picks. One call of moetierd gives
// `output`; what lies between is then never computed.
struct LayerMatch {
  uint32_t layer = 0;
  kernels::Activation activation = kernels::Activation::kSwiGlu;
  const Tensor* gate = nullptr;  // weights; the fused ones if `up` is null
  const Tensor* up = nullptr;
  const Tensor* down = nullptr;
  const Tensor* gate_bias = nullptr;
  const Tensor* up_bias = nullptr;
  const Tensor* down_bias = nullptr;

  const Tensor* input = nullptr;    // [hidden, 1, rows] f32
  const Tensor* experts = nullptr;  // [at least top_k, rows] i32
  const Tensor* weights = nullptr;  // [1, at least top_k, rows] f32, a row without gaps
  const Tensor* output = nullptr;   // [hidden, rows] f32
  uint32_t top_k = 0;               // picks that are summed

  std::vector<const Tensor*> inner;  // results that only this layer may read
};

// Finds the layer whose router weights are applied by `multiply`, a MUL. Every operation of the
// layer must be among `nodes`, in ggml's own shapes; anything else is no match.
std::optional<LayerMatch> MatchLayer(const OperationNames& names, std::span<Tensor* const> nodes,
                                     const Tensor& multiply);

}  // namespace moetier::ggml

#endif  // MOETIER_ADAPTERS_LLAMA_CPP_LAYER_MATCH_H_
