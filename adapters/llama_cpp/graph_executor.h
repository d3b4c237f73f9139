#ifndef MOETIER_ADAPTERS_LLAMA_CPP_GRAPH_EXECUTOR_H_
#define MOETIER_ADAPTERS_LLAMA_CPP_GRAPH_EXECUTOR_H_

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "adapters/llama_cpp/expert_weights.h"
#include "adapters/llama_cpp/ggml_library.h"
#include "adapters/llama_cpp/lane_session.h"
#include "adapters/llama_cpp/layer_match.h"
#include "adapters/llama_cpp/operation.h"

namespace moetier::ggml {

// Computes the graphs of one backend instance: one call a layer where a whole layer is in the
// graph, one operation at a time where it is not.
// Threads:  one at a time, as ggml uses a backend.
// Lifetime: `library` and `names` outlive this object.
class GraphExecutor {
 public:
  GraphExecutor(const Library& library, const OperationNames& names)
      : library_(library), names_(names) {}

  // On an error the results are undefined.
  Status Compute(Graph* graph);

 private:
  // A model that this backend computes with.
  struct Model {
    std::shared_ptr<ExpertWeights> weights;
    LaneSession session;
  };

  std::optional<LayerMatch> FindLayer(Graph* graph, const Tensor& multiply) const;
  [[nodiscard]] bool IsClosed(const Graph* graph, const LayerMatch& layer) const;
  Status ComputeLayer(const LayerMatch& layer);
  Status ComputeAlone(const Tensor& node);
  Result<Model*> ModelOf(const Tensor& weights);
  Status ReadWeights(const Tensor& weights, uint64_t offset, std::span<std::byte> out);

  const Library& library_;
  const OperationNames& names_;
  std::map<const ExpertWeights*, Model> models_;
  bool said_slow_ = false;
  std::vector<Tensor*> nodes_;    // of the graph being computed
  std::vector<bool> in_a_layer_;  // of nodes_
};

}  // namespace moetier::ggml

#endif  // MOETIER_ADAPTERS_LLAMA_CPP_GRAPH_EXECUTOR_H_
