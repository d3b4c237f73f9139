// Compares each offset, size and number of adapters/llama_cpp/ggml_abi.h with the headers of the
// release that it is compiled against. It compiles or it does not: PROBE_ABI_V2 says which layout
// of the function tables the release has.

#include <ggml-backend-impl.h>
#include <ggml-backend.h>
#include <ggml-impl.h>
#include <ggml.h>

#include "adapters/llama_cpp/ggml_abi.h"

namespace ours = moetier::ggml;

#ifdef PROBE_ABI_V2
using OurBufferInterface = ours::BufferInterfaceV2;
using OurBackendInterface = ours::BackendInterfaceV2;
using OurBackend = ours::BackendV2;
#else
using OurBufferInterface = ours::BufferInterfaceV1;
using OurBackendInterface = ours::BackendInterfaceV1;
using OurBackend = ours::BackendV1;
#endif

#define SAME_FIELD(Ours, our_field, Theirs, their_field)                      \
  static_assert(offsetof(Ours, our_field) == offsetof(Theirs, their_field) && \
                    sizeof(Ours::our_field) == sizeof(Theirs::their_field),   \
                #Theirs "." #their_field)
#define SAME_SIZE(Ours, Theirs) static_assert(sizeof(Ours) == sizeof(Theirs), #Theirs)

static_assert(ours::kApiVersion == GGML_BACKEND_API_VERSION);
static_assert(ours::kMaxSources == GGML_MAX_SRC);
static_assert(ours::kAllocFailed == GGML_STATUS_ALLOC_FAILED);
static_assert(ours::kFailed == GGML_STATUS_FAILED);
static_assert(ours::kSuccess == GGML_STATUS_SUCCESS);
static_assert(ours::kTypeF32 == GGML_TYPE_F32);
static_assert(ours::kTypeI32 == GGML_TYPE_I32);
static_assert(ours::kFlagOutput == GGML_TENSOR_FLAG_OUTPUT);
static_assert(ours::kAccelerator == GGML_BACKEND_DEVICE_TYPE_ACCEL);

SAME_SIZE(ours::Tensor, ggml_tensor);
SAME_FIELD(ours::Tensor, type, ggml_tensor, type);
SAME_FIELD(ours::Tensor, buffer, ggml_tensor, buffer);
SAME_FIELD(ours::Tensor, ne, ggml_tensor, ne);
SAME_FIELD(ours::Tensor, nb, ggml_tensor, nb);
SAME_FIELD(ours::Tensor, op, ggml_tensor, op);
SAME_FIELD(ours::Tensor, op_params, ggml_tensor, op_params);
SAME_FIELD(ours::Tensor, flags, ggml_tensor, flags);
SAME_FIELD(ours::Tensor, src, ggml_tensor, src);
SAME_FIELD(ours::Tensor, view_src, ggml_tensor, view_src);
SAME_FIELD(ours::Tensor, view_offs, ggml_tensor, view_offs);
SAME_FIELD(ours::Tensor, data, ggml_tensor, data);
SAME_FIELD(ours::Tensor, name, ggml_tensor, name);

SAME_SIZE(ours::BufferTypeInterface, ggml_backend_buffer_type_i);
SAME_FIELD(ours::BufferTypeInterface, get_name, ggml_backend_buffer_type_i, get_name);
SAME_FIELD(ours::BufferTypeInterface, alloc_buffer, ggml_backend_buffer_type_i, alloc_buffer);
SAME_FIELD(ours::BufferTypeInterface, get_alignment, ggml_backend_buffer_type_i, get_alignment);
SAME_FIELD(ours::BufferTypeInterface, get_max_size, ggml_backend_buffer_type_i, get_max_size);
SAME_FIELD(ours::BufferTypeInterface, get_alloc_size, ggml_backend_buffer_type_i, get_alloc_size);
SAME_FIELD(ours::BufferTypeInterface, is_host, ggml_backend_buffer_type_i, is_host);
SAME_SIZE(ours::BufferType, ggml_backend_buffer_type);
SAME_FIELD(ours::BufferType, device, ggml_backend_buffer_type, device);
SAME_FIELD(ours::BufferType, context, ggml_backend_buffer_type, context);

SAME_SIZE(OurBufferInterface, ggml_backend_buffer_i);
SAME_FIELD(OurBufferInterface, free_buffer, ggml_backend_buffer_i, free_buffer);
SAME_FIELD(OurBufferInterface, get_base, ggml_backend_buffer_i, get_base);
SAME_FIELD(OurBufferInterface, init_tensor, ggml_backend_buffer_i, init_tensor);
SAME_FIELD(OurBufferInterface, memset_tensor, ggml_backend_buffer_i, memset_tensor);
SAME_FIELD(OurBufferInterface, set_tensor, ggml_backend_buffer_i, set_tensor);
SAME_FIELD(OurBufferInterface, get_tensor, ggml_backend_buffer_i, get_tensor);
#ifdef PROBE_ABI_V2
SAME_FIELD(OurBufferInterface, set_tensor_2d, ggml_backend_buffer_i, set_tensor_2d);
SAME_FIELD(OurBufferInterface, get_tensor_2d, ggml_backend_buffer_i, get_tensor_2d);
#endif
SAME_FIELD(OurBufferInterface, cpy_tensor, ggml_backend_buffer_i, cpy_tensor);
SAME_FIELD(OurBufferInterface, clear, ggml_backend_buffer_i, clear);
SAME_FIELD(OurBufferInterface, reset, ggml_backend_buffer_i, reset);
using OurBuffer = ours::BufferLayout<OurBufferInterface>;
SAME_SIZE(OurBuffer, ggml_backend_buffer);
SAME_FIELD(OurBuffer, type, ggml_backend_buffer, buft);
SAME_FIELD(OurBuffer, context, ggml_backend_buffer, context);
SAME_FIELD(OurBuffer, size, ggml_backend_buffer, size);
SAME_FIELD(OurBuffer, usage, ggml_backend_buffer, usage);

SAME_SIZE(OurBackendInterface, ggml_backend_i);
SAME_FIELD(OurBackendInterface, get_name, ggml_backend_i, get_name);
SAME_FIELD(OurBackendInterface, free, ggml_backend_i, free);
SAME_FIELD(OurBackendInterface, synchronize, ggml_backend_i, synchronize);
SAME_FIELD(OurBackendInterface, graph_compute, ggml_backend_i, graph_compute);
SAME_FIELD(OurBackendInterface, event_record, ggml_backend_i, event_record);
SAME_FIELD(OurBackendInterface, graph_optimize, ggml_backend_i, graph_optimize);
SAME_SIZE(OurBackend, ggml_backend);
SAME_FIELD(OurBackend, guid, ggml_backend, guid);
SAME_FIELD(OurBackend, iface, ggml_backend, iface);
SAME_FIELD(OurBackend, device, ggml_backend, device);
SAME_FIELD(OurBackend, context, ggml_backend, context);

// The last capability may lie in what was padding.
SAME_SIZE(ours::DeviceProperties, ggml_backend_dev_props);
SAME_FIELD(ours::DeviceProperties, name, ggml_backend_dev_props, name);
SAME_FIELD(ours::DeviceProperties, description, ggml_backend_dev_props, description);
SAME_FIELD(ours::DeviceProperties, memory_free, ggml_backend_dev_props, memory_free);
SAME_FIELD(ours::DeviceProperties, memory_total, ggml_backend_dev_props, memory_total);
SAME_FIELD(ours::DeviceProperties, type, ggml_backend_dev_props, type);
SAME_FIELD(ours::DeviceProperties, device_id, ggml_backend_dev_props, device_id);
static_assert(offsetof(ours::DeviceProperties, capabilities) ==
              offsetof(ggml_backend_dev_props, caps));
SAME_FIELD(ours::DeviceCapabilities, async, ggml_backend_dev_caps, async);
SAME_FIELD(ours::DeviceCapabilities, host_buffer, ggml_backend_dev_caps, host_buffer);
SAME_FIELD(ours::DeviceCapabilities, buffer_from_host_ptr, ggml_backend_dev_caps,
           buffer_from_host_ptr);
SAME_FIELD(ours::DeviceCapabilities, events, ggml_backend_dev_caps, events);

SAME_SIZE(ours::DeviceInterface, ggml_backend_device_i);
SAME_FIELD(ours::DeviceInterface, get_name, ggml_backend_device_i, get_name);
SAME_FIELD(ours::DeviceInterface, get_description, ggml_backend_device_i, get_description);
SAME_FIELD(ours::DeviceInterface, get_memory, ggml_backend_device_i, get_memory);
SAME_FIELD(ours::DeviceInterface, get_type, ggml_backend_device_i, get_type);
SAME_FIELD(ours::DeviceInterface, get_props, ggml_backend_device_i, get_props);
SAME_FIELD(ours::DeviceInterface, init_backend, ggml_backend_device_i, init_backend);
SAME_FIELD(ours::DeviceInterface, get_buffer_type, ggml_backend_device_i, get_buffer_type);
SAME_FIELD(ours::DeviceInterface, supports_op, ggml_backend_device_i, supports_op);
SAME_FIELD(ours::DeviceInterface, supports_buft, ggml_backend_device_i, supports_buft);
SAME_FIELD(ours::DeviceInterface, offload_op, ggml_backend_device_i, offload_op);
SAME_SIZE(ours::Device, ggml_backend_device);
SAME_FIELD(ours::Device, registry, ggml_backend_device, reg);
SAME_FIELD(ours::Device, context, ggml_backend_device, context);

SAME_SIZE(ours::RegistryInterface, ggml_backend_reg_i);
SAME_FIELD(ours::RegistryInterface, get_name, ggml_backend_reg_i, get_name);
SAME_FIELD(ours::RegistryInterface, get_device_count, ggml_backend_reg_i, get_device_count);
SAME_FIELD(ours::RegistryInterface, get_device, ggml_backend_reg_i, get_device);
SAME_FIELD(ours::RegistryInterface, get_proc_address, ggml_backend_reg_i, get_proc_address);
SAME_SIZE(ours::Registry, ggml_backend_reg);
SAME_FIELD(ours::Registry, api_version, ggml_backend_reg, api_version);
SAME_FIELD(ours::Registry, iface, ggml_backend_reg, iface);
SAME_FIELD(ours::Registry, context, ggml_backend_reg, context);

SAME_FIELD(ours::GraphFront, n_nodes, ggml_cgraph, n_nodes);
SAME_FIELD(ours::GraphFront, nodes, ggml_cgraph, nodes);
SAME_FIELD(ours::GraphFront, use_counts, ggml_cgraph, use_counts);
static_assert(offsetof(ours::GraphFront, visited_size) == offsetof(ggml_cgraph, visited_hash_set));
static_assert(offsetof(ggml_hash_set, size) == 0);
static_assert(offsetof(ggml_hash_set, used) ==
              offsetof(ours::GraphFront, visited_used) - offsetof(ours::GraphFront, visited_size));
static_assert(offsetof(ggml_hash_set, keys) ==
              offsetof(ours::GraphFront, visited_keys) - offsetof(ours::GraphFront, visited_size));
static_assert(sizeof(ggml_bitset_t) == sizeof(uint32_t));

int main() { return 0; }
