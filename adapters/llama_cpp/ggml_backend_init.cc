#include <memory>

#include "adapters/llama_cpp/ggml_library.h"
#include "adapters/llama_cpp/guarded.h"
#include "adapters/llama_cpp/message.h"
#include "adapters/llama_cpp/plugin.h"

// What ggml calls in a backend library that it has loaded. Null: not usable here.
extern "C" __attribute__((visibility("default"))) moetier::ggml::Registry* ggml_backend_init() {
  using namespace moetier::ggml;  // NOLINT
  // ggml asks again at every ggml_backend_load_all and knows a registry by its address. Never
  // freed: engines free buffers and backends as late as at exit.
  const auto make = [caller = __builtin_return_address(0)]() -> Plugin* {
    moetier::Result<Library> library = FindLibrary(caller);
    if (library) return new Plugin(*std::move(library));
    Say(library.error().message);
    return nullptr;
  };
  static Plugin* const plugin = Guarded(make, static_cast<Plugin*>(nullptr));
  return plugin != nullptr ? plugin->registry() : nullptr;
}
