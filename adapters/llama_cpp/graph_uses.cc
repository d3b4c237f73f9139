#include "adapters/llama_cpp/graph_uses.h"

namespace moetier::ggml {

// ggml keeps the counts in an open hash set of tensors: the slot of a tensor is its address / 16
// modulo the size, or the next ones.
std::optional<int32_t> UsesOf(const Graph* graph, const Tensor* tensor) {
  const auto& front = *reinterpret_cast<const GraphFront*>(graph);
  if (front.use_counts == nullptr || front.visited_keys == nullptr || front.visited_size == 0) {
    return std::nullopt;
  }
  const size_t first = (reinterpret_cast<uintptr_t>(tensor) >> 4) % front.visited_size;
  for (size_t i = 0; i < front.visited_size; ++i) {
    const size_t slot = (first + i) % front.visited_size;
    const bool used = (front.visited_used[slot / 32] >> (slot % 32) & 1) != 0;
    if (!used) return std::nullopt;
    if (front.visited_keys[slot] == tensor) return front.use_counts[slot];
  }
  return std::nullopt;
}

}  // namespace moetier::ggml
