#ifndef MOETIER_ADAPTERS_LLAMA_CPP_GGML_ABI_H_
#define MOETIER_ADAPTERS_LLAMA_CPP_GGML_ABI_H_

#include <cstddef>
#include <cstdint>

// The part of ggml's binary interface (backend API version 2) that the plug-in touches, declared by
// us so that one file serves several releases. Two layouts of the function tables are in use:
// ggml put four entries into the middle of two of them without a new API version. Everything else
// here is alike in all known releases; tests/engine compares each offset with the releases'
// headers.

namespace moetier::ggml {

inline constexpr int kApiVersion = 2;
inline constexpr size_t kMaxSources = 10;

struct Graph;   // read through ggml's accessors and graph_uses.h
struct Buffer;  // read through ggml's accessors and BufferContext
struct BufferType;
struct BackendV1;
struct BackendV2;
struct Device;
struct Registry;

enum GraphStatus : int32_t { kAllocFailed = -2, kFailed = -1, kSuccess = 0 };
enum TensorType : int32_t { kTypeF32 = 0, kTypeI32 = 26 };
enum TensorFlag : int32_t { kFlagOutput = 2 };
enum DeviceType : int32_t { kAccelerator = 3 };

// Numbers of operations differ between releases: they are told apart by name (operation.h).
using OperationNumber = int32_t;

struct Tensor {
  int32_t type;
  Buffer* buffer;
  int64_t ne[4];  // elements
  size_t nb[4];   // stride in bytes
  OperationNumber op;
  int32_t op_params[16];
  int32_t flags;
  Tensor* src[kMaxSources];
  Tensor* view_src;
  size_t view_offs;
  void* data;
  char name[64];
  void* extra;
  char padding[8];
};

struct BufferTypeInterface {
  const char* (*get_name)(BufferType*);
  Buffer* (*alloc_buffer)(BufferType*, size_t size);
  size_t (*get_alignment)(BufferType*);
  size_t (*get_max_size)(BufferType*);
  size_t (*get_alloc_size)(BufferType*, const Tensor*);
  bool (*is_host)(BufferType*);
};
struct BufferType {
  BufferTypeInterface iface;
  Device* device;
  void* context;
};

using BufferSetTensor = void(Buffer*, Tensor*, const void* data, size_t offset, size_t size);
using BufferGetTensor = void(Buffer*, const Tensor*, void* data, size_t offset, size_t size);

// ggml to 0.9.x.
struct BufferInterfaceV1 {
  void (*free_buffer)(Buffer*);
  void* (*get_base)(Buffer*);
  int32_t (*init_tensor)(Buffer*, Tensor*);
  void (*memset_tensor)(Buffer*, Tensor*, uint8_t value, size_t offset, size_t size);
  BufferSetTensor* set_tensor;
  BufferGetTensor* get_tensor;
  bool (*cpy_tensor)(Buffer*, const Tensor* source, Tensor* target);
  void (*clear)(Buffer*, uint8_t value);
  void (*reset)(Buffer*);
};
// Later ones.
struct BufferInterfaceV2 {
  void (*free_buffer)(Buffer*);
  void* (*get_base)(Buffer*);
  int32_t (*init_tensor)(Buffer*, Tensor*);
  void (*memset_tensor)(Buffer*, Tensor*, uint8_t value, size_t offset, size_t size);
  BufferSetTensor* set_tensor;
  BufferGetTensor* get_tensor;
  void (*set_tensor_2d)();  // optional; never set by us
  void (*get_tensor_2d)();  // optional; never set by us
  bool (*cpy_tensor)(Buffer*, const Tensor* source, Tensor* target);
  void (*clear)(Buffer*, uint8_t value);
  void (*reset)(Buffer*);
};
template <typename Interface>
struct BufferLayout {
  Interface iface;
  BufferType* type;
  void* context;
  size_t size;
  int32_t usage;
};

// Entries that the plug-in leaves out are void functions here: all are optional in ggml.
struct BackendInterfaceV1 {
  const char* (*get_name)(BackendV1*);
  void (*free)(BackendV1*);
  void (*set_tensor_async)();
  void (*get_tensor_async)();
  void (*cpy_tensor_async)();
  void (*synchronize)();
  void (*graph_plan_create)();
  void (*graph_plan_free)();
  void (*graph_plan_update)();
  void (*graph_plan_compute)();
  int32_t (*graph_compute)(BackendV1*, Graph*);
  void (*event_record)();
  void (*event_wait)();
  void (*graph_optimize)();
};
struct BackendInterfaceV2 {
  const char* (*get_name)(BackendV2*);
  void (*free)(BackendV2*);
  void (*set_tensor_async)();
  void (*get_tensor_async)();
  void (*set_tensor_2d_async)();
  void (*get_tensor_2d_async)();
  void (*cpy_tensor_async)();
  void (*synchronize)();
  void (*graph_plan_create)();
  void (*graph_plan_free)();
  void (*graph_plan_update)();
  void (*graph_plan_compute)();
  int32_t (*graph_compute)(BackendV2*, Graph*);
  void (*event_record)();
  void (*event_wait)();
  void (*graph_optimize)();
};
struct BackendV1 {
  const uint8_t (*guid)[16];
  BackendInterfaceV1 iface;
  Device* device;
  void* context;
};
struct BackendV2 {
  const uint8_t (*guid)[16];
  BackendInterfaceV2 iface;
  Device* device;
  void* context;
};

struct DeviceCapabilities {
  bool async;
  bool host_buffer;
  bool buffer_from_host_ptr;
  bool events;
  bool mmap_support;  // padding in releases before 0.23
};
struct DeviceProperties {
  const char* name;
  const char* description;
  size_t memory_free;
  size_t memory_total;
  int32_t type;
  const char* device_id;
  DeviceCapabilities capabilities;
};
struct DeviceInterface {
  const char* (*get_name)(Device*);
  const char* (*get_description)(Device*);
  void (*get_memory)(Device*, size_t* free, size_t* total);
  int32_t (*get_type)(Device*);
  void (*get_props)(Device*, DeviceProperties*);
  void* (*init_backend)(Device*, const char* params);  // a BackendV1 or BackendV2
  BufferType* (*get_buffer_type)(Device*);
  void (*get_host_buffer_type)();
  void (*buffer_from_host_ptr)();
  bool (*supports_op)(Device*, const Tensor*);
  bool (*supports_buft)(Device*, BufferType*);
  void (*offload_op)();
  void (*event_new)();
  void (*event_free)();
  void (*event_synchronize)();
};
struct Device {
  DeviceInterface iface;
  Registry* registry;
  void* context;
};

struct RegistryInterface {
  const char* (*get_name)(Registry*);
  size_t (*get_device_count)(Registry*);
  Device* (*get_device)(Registry*, size_t index);
  void* (*get_proc_address)(Registry*, const char* name);
};
struct Registry {
  int api_version;
  RegistryInterface iface;
  void* context;
};

// The front of ggml_cgraph, private to ggml; what follows differs and is not read.
struct GraphFront {
  int size;
  int n_nodes;
  int n_leafs;
  Tensor** nodes;
  Tensor** grads;
  Tensor** grad_accs;
  Tensor** leafs;
  int32_t* use_counts;  // by slot of the set below
  size_t visited_size;
  uint32_t* visited_used;  // bit i: slot i holds a key
  Tensor** visited_keys;
};

}  // namespace moetier::ggml

#endif  // MOETIER_ADAPTERS_LLAMA_CPP_GGML_ABI_H_
