#include "adapters/llama_cpp/ggml_library.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <vector>

namespace moetier::ggml {
namespace {

// 0.9.7 (llama.cpp b8390), 0.23.0 (v0.4.0) and 0.25.1 (v0.5.0) are compared with ggml_abi.h by
// tests/engine; the releases between them have one of the same two layouts.
constexpr int kOldestMinor = 9;
constexpr int kNewestMinor = 25;

std::string_view FolderOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view NameOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

int CollectBaseLibraries(dl_phdr_info* info, size_t /*size*/, void* data) {
  const std::string_view path = info->dlpi_name != nullptr ? info->dlpi_name : "";
  if (NameOf(path).starts_with("libggml-base")) {
    static_cast<std::vector<std::string>*>(data)->emplace_back(path);
  }
  return 0;
}

// The handle of the engine's libggml-base; RTLD_DEFAULT, which is null, where ggml is part of the
// program itself. Two engines in one process have two: the one beside the caller is meant.
void* FindHandle(const void* caller) {
  std::vector<std::string> paths;
  dl_iterate_phdr(CollectBaseLibraries, &paths);
  if (paths.empty()) return RTLD_DEFAULT;
  std::string chosen = paths.front();
  Dl_info info{};
  if (paths.size() > 1 && dladdr(caller, &info) != 0 && info.dli_fname != nullptr) {
    for (const std::string& path : paths) {
      if (FolderOf(path) == FolderOf(info.dli_fname)) chosen = path;
    }
  }
  return dlopen(chosen.c_str(), RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
}

// "0.25.1" is {0, 25}.
struct Version {
  int major;
  int minor;
};
std::optional<Version> ParseVersion(std::string_view text) {
  Version version{};
  const char* const end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, version.major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return std::nullopt;
  const auto minor = std::from_chars(major.ptr + 1, end, version.minor);
  if (minor.ec != std::errc()) return std::nullopt;
  return version;
}

Error Unusable(std::string message) {
  return {ErrorCode::kFailedPrecondition, Reason::kUnsupportedModel, std::move(message)};
}

// Resolves one function of `handle`, or notes its name.
template <typename Function>
void Resolve(void* handle, const char* name, Function*& function, std::string& missing) {
  function = reinterpret_cast<Function*>(dlsym(handle, name));
  if (function == nullptr) missing += fmt::format(" {}", name);
}

}  // namespace

Status CheckVersion(std::string_view version, std::string_view accepted) {
  const std::optional<Version> parsed = ParseVersion(version);
  const bool known = parsed && parsed->major == 0 && parsed->minor >= kOldestMinor &&
                     parsed->minor <= kNewestMinor;
  if (known || (!accepted.empty() && version == accepted)) return Ok{};
  return Unusable(fmt::format(
      "this engine has ggml {}; the plug-in knows the binary layouts of ggml 0.{} to 0.{} and does "
      "not guess others. Use a plug-in made for it, or set MOETIER_ACCEPT_GGML={} to try the "
      "newest "
      "known layout at your own risk",
      version, kOldestMinor, kNewestMinor, version));
}

Result<Library> FindLibrary(const void* caller) {
  void* const handle = FindHandle(caller);
  std::string missing;
  const char* (*ggml_version)() = nullptr;
  Library library;
  Resolve(handle, "ggml_version", ggml_version, missing);
  Resolve(handle, "ggml_op_name", library.op_name, missing);
  Resolve(handle, "ggml_glu_op_name", library.glu_op_name, missing);
  Resolve(handle, "ggml_graph_n_nodes", library.graph_n_nodes, missing);
  Resolve(handle, "ggml_graph_node", library.graph_node, missing);
  Resolve(handle, "ggml_backend_buffer_get_type", library.buffer_get_type, missing);
  Resolve(handle, "ggml_backend_buffer_get_usage", library.buffer_get_usage, missing);
  Resolve(handle, "ggml_backend_buft_is_host", library.buft_is_host, missing);
  Resolve(handle, "ggml_backend_buffer_init", library.buffer_init_v1, missing);
  Resolve(handle, "ggml_backend_buffer_init", library.buffer_init_v2, missing);
  if (!missing.empty()) {
    return Unusable(
        fmt::format("the engine's ggml does not export{}; an engine that was built with "
                    "backends as loadable libraries (GGML_BACKEND_DL) does",
                    missing));
  }
  library.version = ggml_version();
  const char* const accepted = std::getenv("MOETIER_ACCEPT_GGML");
  RETURN_IF_ERROR(CheckVersion(library.version, accepted != nullptr ? accepted : ""));
  // This function came with the four entries of the second layout.
  library.layout =
      dlsym(handle, "ggml_backend_tensor_set_2d") != nullptr ? AbiLayout::kV2 : AbiLayout::kV1;
  return library;
}

void* BufferContext(AbiLayout layout, const Buffer* buffer) {
  if (layout == AbiLayout::kV1) {
    return reinterpret_cast<const BufferLayout<BufferInterfaceV1>*>(buffer)->context;
  }
  return reinterpret_cast<const BufferLayout<BufferInterfaceV2>*>(buffer)->context;
}

}  // namespace moetier::ggml
