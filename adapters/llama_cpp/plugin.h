#ifndef MOETIER_ADAPTERS_LLAMA_CPP_PLUGIN_H_
#define MOETIER_ADAPTERS_LLAMA_CPP_PLUGIN_H_

#include "adapters/llama_cpp/ggml_abi.h"
#include "adapters/llama_cpp/ggml_library.h"
#include "adapters/llama_cpp/operation.h"

namespace moetier::ggml {

// What ggml sees of the plug-in: a registry with one device of type ACCEL and its buffer type
// "MOETIER". ggml asks an accelerator before the CPU and gives it no layers and no KV cache of its
// own.
// Lifetime: as long as the process, since ggml keeps pointers into it; it does not move.
class Plugin {
 public:
  explicit Plugin(Library library);
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  [[nodiscard]] Registry* registry() { return &registry_; }
  [[nodiscard]] Device* device() { return &device_; }
  [[nodiscard]] BufferType* buffer_type() { return &buffer_type_; }
  [[nodiscard]] const Library& library() const { return library_; }
  [[nodiscard]] const OperationNames& names() const { return names_; }

 private:
  Library library_;
  OperationNames names_;
  Registry registry_;
  Device device_;
  BufferType buffer_type_;
};

}  // namespace moetier::ggml

#endif  // MOETIER_ADAPTERS_LLAMA_CPP_PLUGIN_H_
