#include "adapters/llama_cpp/backend.h"

#include "adapters/llama_cpp/graph_executor.h"
#include "adapters/llama_cpp/guarded.h"
#include "adapters/llama_cpp/message.h"

namespace moetier::ggml {
namespace {

// Names the kind of backend; random, as ggml's own are.
constexpr uint8_t kGuid[16] = {0x5b, 0x1e, 0x8a, 0x40, 0xc7, 0x2d, 0x4f, 0x93,
                               0x9e, 0x06, 0xd1, 0x3c, 0x7a, 0xb5, 0x28, 0xe4};

const char* Name() { return "MOETIER"; }

int32_t Compute(GraphExecutor& executor, Graph* graph) {
  const Status status = executor.Compute(graph);
  if (status) return kSuccess;
  Say(status.error().message);
  return kFailed;
}

template <typename Backend>
struct Functions {
  static GraphExecutor* Of(Backend* backend) {
    return static_cast<GraphExecutor*>(backend->context);
  }
  static const char* GetName(Backend* /*backend*/) { return Name(); }
  static void Free(Backend* backend) {
    delete Of(backend);
    delete backend;
  }
  static int32_t GraphCompute(Backend* backend, Graph* graph) {
    return Guarded([&] { return Compute(*Of(backend), graph); }, int32_t{kAllocFailed});
  }
  static Backend* New(const Library& library, const OperationNames& names, Device* device) {
    auto* const backend = new Backend{};
    backend->guid = &kGuid;
    backend->iface.get_name = GetName;
    backend->iface.free = Free;
    backend->iface.graph_compute = GraphCompute;
    backend->device = device;
    backend->context = new GraphExecutor(library, names);
    return backend;
  }
};

}  // namespace

void* NewBackend(const Library& library, const OperationNames& names, Device* device) {
  if (library.layout == AbiLayout::kV1) return Functions<BackendV1>::New(library, names, device);
  return Functions<BackendV2>::New(library, names, device);
}

}  // namespace moetier::ggml
