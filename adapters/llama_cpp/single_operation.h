#ifndef MOETIER_ADAPTERS_LLAMA_CPP_SINGLE_OPERATION_H_
#define MOETIER_ADAPTERS_LLAMA_CPP_SINGLE_OPERATION_H_

#include <functional>
#include <span>

#include "adapters/llama_cpp/ggml_abi.h"
#include "adapters/llama_cpp/operation.h"
#include "base/result.h"

namespace moetier::ggml {

// Bytes of an expert tensor from `offset` on.
using WeightReader =
    std::function<Status(const Tensor& weights, uint64_t offset, std::span<std::byte> out)>;

// Executes one operation by itself, without moetierd: weights are read from the model file and
// multiplied by the scalar reference. For graphs that no layer call covers, such as the pieces that
// an evaluation callback cuts. Slow; the arithmetic is moetierd's.
// The error names the operation and what about it is not served.
Status RunSingleOperation(const OperationNames& names, const Tensor& node,
                          const WeightReader& read_weights);

// Whether RunSingleOperation has this kind of GLU.
bool IsServed(GluKind kind);

}  // namespace moetier::ggml

#endif  // MOETIER_ADAPTERS_LLAMA_CPP_SINGLE_OPERATION_H_
