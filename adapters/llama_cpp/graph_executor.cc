#include "adapters/llama_cpp/graph_executor.h"

#include <fmt/core.h>

#include <algorithm>

#include "adapters/llama_cpp/expert_buffer.h"
#include "adapters/llama_cpp/graph_uses.h"
#include "adapters/llama_cpp/message.h"
#include "adapters/llama_cpp/single_operation.h"

namespace moetier::ggml {
namespace {

// The operations of a layer have no more operands.
constexpr size_t kOperands = 3;

int32_t CountReads(const Tensor& reader, const Tensor* tensor) {
  return static_cast<int32_t>(std::count(reader.src, reader.src + kOperands, tensor));
}

}  // namespace

// Whether nobody but the layer itself reads its inner results, which a layer call never computes.
bool GraphExecutor::IsClosed(const Graph* graph, const LayerMatch& layer) const {
  return std::all_of(layer.inner.begin(), layer.inner.end(), [&](const Tensor* tensor) {
    if ((tensor->flags & kFlagOutput) != 0) return false;
    const std::optional<int32_t> all = UsesOf(graph, tensor);
    int32_t own = CountReads(*layer.output, tensor);
    for (const Tensor* reader : layer.inner) own += CountReads(*reader, tensor);
    return all && *all == own;  // a graph that does not say who reads is not taken whole
  });
}

std::optional<LayerMatch> GraphExecutor::FindLayer(Graph* graph, const Tensor& multiply) const {
  if (names_.Of(multiply) != Operation::kMul) return std::nullopt;
  std::optional<LayerMatch> layer = MatchLayer(names_, nodes_, multiply);
  if (!layer || !IsClosed(graph, *layer)) return std::nullopt;
  return layer;
}

Result<GraphExecutor::Model*> GraphExecutor::ModelOf(const Tensor& weights) {
  std::shared_ptr<ExpertWeights> behind = WeightsOf(library_, weights.buffer);
  if (behind == nullptr) {
    return Error{ErrorCode::kInternal, Reason::kBadShape,
                 fmt::format("{} lies in no buffer of the plug-in", weights.name)};
  }
  RETURN_IF_ERROR(behind->Usable());
  const auto found = models_.find(behind.get());
  if (found != models_.end()) return &found->second;
  const ModelFiles& files = behind->files();
  const ExpertWeights* const key = behind.get();
  Model model{std::move(behind), LaneSession(files, "llama.cpp, ggml " + library_.version)};
  return &models_.emplace(key, std::move(model)).first->second;
}

Status GraphExecutor::ReadWeights(const Tensor& weights, uint64_t offset,
                                  std::span<std::byte> out) {
  ASSIGN_OR_RETURN(Model* const model, ModelOf(weights));
  return model->weights->Read(weights, offset, out);
}

Status GraphExecutor::ComputeLayer(const LayerMatch& layer) {
  ASSIGN_OR_RETURN(Model* const model, ModelOf(*layer.down));
  return model->session.Compute(layer);
}

Status GraphExecutor::ComputeAlone(const Tensor& node) {
  if (names_.Of(node) == Operation::kMulMatId && !said_slow_) {
    said_slow_ = true;
    Say(fmt::format(
        "{} and perhaps others are multiplied in the engine, slowly, since their layer is "
        "not handed over whole: an evaluation callback, a LoRA adapter, or a form of "
        "layer that moetierd lacks",
        node.src[0]->name));
  }
  return RunSingleOperation(
      names_, node, [this](const Tensor& weights, uint64_t offset, std::span<std::byte> out) {
        return ReadWeights(weights, offset, out);
      });
}

Status GraphExecutor::Compute(Graph* graph) {
  const int count = library_.graph_n_nodes(graph);
  nodes_.clear();
  for (int i = 0; i < count; ++i) nodes_.push_back(library_.graph_node(graph, i));

  // A layer is computed where its output stands: its inputs are older, and nobody else reads what
  // is in between.
  std::map<const Tensor*, LayerMatch> layers;  // by output
  in_a_layer_.assign(nodes_.size(), false);
  for (const Tensor* node : nodes_) {
    std::optional<LayerMatch> layer = FindLayer(graph, *node);
    if (!layer) continue;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const auto& inner = layer->inner;
      if (std::find(inner.begin(), inner.end(), nodes_[i]) != inner.end()) in_a_layer_[i] = true;
    }
    layers.emplace(layer->output, *std::move(layer));
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (in_a_layer_[i]) continue;
    const auto layer = layers.find(nodes_[i]);
    RETURN_IF_ERROR(layer != layers.end() ? ComputeLayer(layer->second) : ComputeAlone(*nodes_[i]));
  }
  return Ok{};
}

}  // namespace moetier::ggml
