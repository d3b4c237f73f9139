#include "adapters/llama_cpp/plugin.h"

#include <utility>

#include "adapters/llama_cpp/backend.h"
#include "adapters/llama_cpp/expert_buffer.h"
#include "adapters/llama_cpp/guarded.h"
#include "adapters/llama_cpp/supported.h"

namespace moetier::ggml {
namespace {

// ggml aligns to the buffer type's; a cache line keeps two tensors' rows apart.
constexpr size_t kAlignment = 64;

Plugin& Of(Registry* registry) { return *static_cast<Plugin*>(registry->context); }
Plugin& Of(Device* device) { return *static_cast<Plugin*>(device->context); }
Plugin& Of(BufferType* type) { return *static_cast<Plugin*>(type->context); }

const char* RegistryName(Registry* /*registry*/) { return "MOETIER"; }
size_t DeviceCount(Registry* /*registry*/) { return 1; }
Device* GetDevice(Registry* registry, size_t /*index*/) { return Of(registry).device(); }
void* NoFunction(Registry* /*registry*/, const char* /*name*/) { return nullptr; }

const char* DeviceName(Device* /*device*/) { return "MOETIER"; }
const char* DeviceDescription(Device* /*device*/) { return "experts computed by moetierd"; }
void DeviceMemory(Device* /*device*/, size_t* free, size_t* total) {
  // 0: nothing to report. The memory for experts is moetierd's.
  *free = 0;
  *total = 0;
}
int32_t GetDeviceType(Device* /*device*/) { return kAccelerator; }
void DeviceProps(Device* device, DeviceProperties* properties) {
  // The last capability lies in padding of older releases' structs.
  *properties = DeviceProperties{};
  properties->name = DeviceName(device);
  properties->description = DeviceDescription(device);
  properties->type = kAccelerator;
  properties->capabilities.mmap_support = true;
}
void* InitBackend(Device* device, const char* /*params*/) {
  Plugin& plugin = Of(device);
  return Guarded([&] { return NewBackend(plugin.library(), plugin.names(), device); },
                 static_cast<void*>(nullptr));
}
BufferType* DeviceBufferType(Device* device) { return Of(device).buffer_type(); }
bool SupportsOp(Device* device, const Tensor* node) {
  Plugin& plugin = Of(device);
  return Guarded(
      [&] { return IsSupported(plugin.library(), plugin.names(), plugin.buffer_type(), *node); },
      false);
}
bool SupportsBufferType(Device* device, BufferType* type) {
  // Host memory is read in place: the engine then copies no inputs.
  Plugin& plugin = Of(device);
  return type == plugin.buffer_type() || plugin.library().buft_is_host(type);
}

const char* BufferTypeName(BufferType* /*type*/) { return "MOETIER"; }
Buffer* AllocateBuffer(BufferType* type, size_t size) {
  return Guarded([&] { return NewExpertBuffer(Of(type).library(), type, size); },
                 static_cast<Buffer*>(nullptr));
}
size_t BufferAlignment(BufferType* /*type*/) { return kAlignment; }

}  // namespace

Plugin::Plugin(Library library)
    : library_(std::move(library)),
      names_(library_),
      registry_{kApiVersion, {RegistryName, DeviceCount, GetDevice, NoFunction}, this},
      device_{},
      buffer_type_{} {
  device_.registry = &registry_;
  device_.context = this;
  device_.iface.get_name = DeviceName;
  device_.iface.get_description = DeviceDescription;
  device_.iface.get_memory = DeviceMemory;
  device_.iface.get_type = GetDeviceType;
  device_.iface.get_props = DeviceProps;
  device_.iface.init_backend = InitBackend;
  device_.iface.get_buffer_type = DeviceBufferType;
  device_.iface.supports_op = SupportsOp;
  device_.iface.supports_buft = SupportsBufferType;
  buffer_type_.device = &device_;
  buffer_type_.context = this;
  buffer_type_.iface.get_name = BufferTypeName;
  buffer_type_.iface.alloc_buffer = AllocateBuffer;
  buffer_type_.iface.get_alignment = BufferAlignment;
  // is_host stays null, which is no: the engine must not read or write expert weights itself.
}

}  // namespace moetier::ggml
