// common_probe LIBRARIES [llama.cpp's own arguments] and probe_run.h's options: an engine whose
// command line goes through libllama-common's parser, as llama-server's and llama-cli's do.

#include <arg.h>
#include <common.h>
#include <ggml-backend.h>

#include "probe_run.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  std::vector<std::string> arguments(argv + 2, argv + argc);
  const ProbeOptions options = TakeProbeOptions(arguments);
  arguments.insert(arguments.begin(), argv[0]);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());

  common_init();
  ggml_backend_load_all_from_path(argv[1]);
  common_params params;
  const auto count = static_cast<int>(pointers.size());
  if (!common_params_parse(count, pointers.data(), params, LLAMA_EXAMPLE_COMMON)) return 2;
  params.no_extra_bufts = true;  // no repacking: other runs then compute alike
  params.n_ctx = 512;
  params.n_batch = 512;
  params.n_ubatch = 512;
  auto started = common_init_from_params(params);
  if (started->model() == nullptr) return 2;
  return RunProbe(started->model(), common_context_params_to_llama(params), options);
}
