#ifndef MOETIER_ADAPTERS_LLAMA_CPP_SUPPORTED_H_
#define MOETIER_ADAPTERS_LLAMA_CPP_SUPPORTED_H_

#include "adapters/llama_cpp/ggml_abi.h"
#include "adapters/llama_cpp/ggml_library.h"
#include "adapters/llama_cpp/operation.h"

namespace moetier::ggml {

// What ggml's scheduler may hand to the plug-in: products over expert weights in buffers of type
// `ours`, and the operations that work on nothing but their results.
bool IsSupported(const Library& library, const OperationNames& names, const BufferType* ours,
                 const Tensor& node);

}  // namespace moetier::ggml

#endif  // MOETIER_ADAPTERS_LLAMA_CPP_SUPPORTED_H_
