#ifndef MOETIER_ADAPTERS_LLAMA_CPP_GRAPH_USES_H_
#define MOETIER_ADAPTERS_LLAMA_CPP_GRAPH_USES_H_

#include <cstdint>
#include <optional>

#include "adapters/llama_cpp/ggml_abi.h"

namespace moetier::ggml {

// How many operations of the whole graph, of which `graph` may be a part, read `tensor`. None if
// the graph does not say.
std::optional<int32_t> UsesOf(const Graph* graph, const Tensor* tensor);

}  // namespace moetier::ggml

#endif  // MOETIER_ADAPTERS_LLAMA_CPP_GRAPH_USES_H_
