#ifndef MOETIER_ADAPTERS_LLAMA_CPP_BACKEND_H_
#define MOETIER_ADAPTERS_LLAMA_CPP_BACKEND_H_

#include "adapters/llama_cpp/ggml_abi.h"
#include "adapters/llama_cpp/ggml_library.h"
#include "adapters/llama_cpp/operation.h"

namespace moetier::ggml {

// A new ggml backend (a BackendV1 or BackendV2, as the library's layout asks) with an executor of
// its own; ggml frees it through its table. `library` and `names` outlive it.
void* NewBackend(const Library& library, const OperationNames& names, Device* device);

}  // namespace moetier::ggml

#endif  // MOETIER_ADAPTERS_LLAMA_CPP_BACKEND_H_
