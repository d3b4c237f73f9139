// llama_probe LIBRARIES MODEL [--cpu-only-name PATTERN] [--callback] [--no-mmap] and probe_run.h's
// options: an engine on libllama's C interface alone, as a program that embeds llama.cpp is.
//   --override PATTERN=BUFFER  puts the tensors that match into a buffer type by its name
//   --callback                 an evaluation callback that looks at every node of the experts
//   --no-mmap                  reads the file instead of mapping it

#include <ggml-backend.h>

#include <cstdio>
#include <cstring>

#include "probe_run.h"

namespace {

ggml_backend_buffer_type_t FindBufferType(const std::string& name) {
  for (size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(ggml_backend_dev_get(i));
    if (type != nullptr && name == ggml_backend_buft_name(type)) return type;
  }
  return nullptr;
}

void LogErrorsOnly(ggml_log_level level, const char* text, void* /*data*/) {
  if (level >= GGML_LOG_LEVEL_WARN && level <= GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::vector<std::string> arguments(argv + 3, argv + argc);
  const ProbeOptions options = TakeProbeOptions(arguments);
  llama_log_set(LogErrorsOnly, nullptr);
  ggml_backend_load_all_from_path(argv[1]);

  llama_model_params model_parameters = llama_model_default_params();
  llama_context_params parameters = llama_context_default_params();
  std::string pattern;
  llama_model_tensor_buft_override overrides[2] = {{nullptr, nullptr}, {nullptr, nullptr}};
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--override" && i + 1 < arguments.size()) {
      const size_t equals = arguments[++i].find('=');
      pattern = arguments[i].substr(0, equals);
      overrides[0] = {pattern.c_str(), FindBufferType(arguments[i].substr(equals + 1))};
      if (overrides[0].buft == nullptr) {
        std::fprintf(stderr, "no buffer type for %s\n", arguments[i].c_str());
        return 2;
      }
      model_parameters.tensor_buft_overrides = overrides;
    } else if (arguments[i] == "--callback") {
      parameters.cb_eval = AskForExperts;
    } else if (arguments[i] == "--no-mmap") {
#ifdef PROBE_HAS_LOAD_MODE
      model_parameters.load_mode = LLAMA_LOAD_MODE_NONE;
#else
      model_parameters.use_mmap = false;
#endif
    } else {
      std::fprintf(stderr, "unknown option %s\n", arguments[i].c_str());
      return 2;
    }
  }
  model_parameters.use_extra_bufts = false;  // no repacking: other runs then compute alike
  parameters.n_ctx = 512;
  parameters.n_batch = 512;
  parameters.n_ubatch = 512;
  parameters.n_threads = 1;
  parameters.n_threads_batch = 1;

  llama_model* model = llama_model_load_from_file(argv[2], model_parameters);
  if (model == nullptr) return 2;
  const int status = RunProbe(model, parameters, options);
  llama_model_free(model);
  return status;
}
