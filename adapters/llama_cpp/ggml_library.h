#ifndef MOETIER_ADAPTERS_LLAMA_CPP_GGML_LIBRARY_H_
#define MOETIER_ADAPTERS_LLAMA_CPP_GGML_LIBRARY_H_

#include <string>
#include <string_view>

#include "adapters/llama_cpp/ggml_abi.h"
#include "base/result.h"

namespace moetier::ggml {

// Which function tables a release of ggml has; see ggml_abi.h.
enum class AbiLayout : uint8_t { kV1, kV2 };

// What the plug-in calls in the engine's own libggml-base, found at run time: no release is linked.
struct Library {
  AbiLayout layout = AbiLayout::kV2;
  std::string version;  // ggml's own
  const char* (*op_name)(OperationNumber) = nullptr;
  const char* (*glu_op_name)(int32_t) = nullptr;
  int (*graph_n_nodes)(Graph*) = nullptr;
  Tensor* (*graph_node)(Graph*, int) = nullptr;
  BufferType* (*buffer_get_type)(Buffer*) = nullptr;
  int32_t (*buffer_get_usage)(Buffer*) = nullptr;
  bool (*buft_is_host)(BufferType*) = nullptr;
  Buffer* (*buffer_init_v1)(BufferType*, BufferInterfaceV1, void* context, size_t size) = nullptr;
  Buffer* (*buffer_init_v2)(BufferType*, BufferInterfaceV2, void* context, size_t size) = nullptr;
};

// Looks among the loaded libraries for the ggml that `caller` (an address of its code) belongs to.
// The error says what was looked for, or that this release of ggml is not one of the known ones.
Result<Library> FindLibrary(const void* caller);

// Whether the plug-in knows this release's layouts: kFailedPrecondition naming the known range
// otherwise. `accepted` is the version that the user vouches for ("": none).
Status CheckVersion(std::string_view version, std::string_view accepted);

// The context given to buffer_init. `buffer` is one of our own type.
void* BufferContext(AbiLayout layout, const Buffer* buffer);

}  // namespace moetier::ggml

#endif  // MOETIER_ADAPTERS_LLAMA_CPP_GGML_LIBRARY_H_
