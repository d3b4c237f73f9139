// generate LIBRARIES MODEL PROMPT TOKENS: what a program that embeds llama.cpp does, at its
// plainest: the greedy continuation of a prompt, printed as it comes. Knows nothing of moetierd;
// whether a backend plug-in takes part is the environment's matter (GGML_BACKEND_PATH).

#include <ggml-backend.h>
#include <llama.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

void LogProblems(ggml_log_level level, const char* text, void* /*data*/) {
  if (level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
}

std::vector<llama_token> Tokenize(const llama_vocab* vocab, const std::string& text) {
  const auto length = static_cast<int32_t>(text.size());
  std::vector<llama_token> tokens(text.size() + 8);
  const int32_t count = llama_tokenize(vocab, text.c_str(), length, tokens.data(),
                                       static_cast<int32_t>(tokens.size()), true, false);
  tokens.resize(static_cast<size_t>(std::max(count, 0)));
  return tokens;
}

void Print(const llama_vocab* vocab, llama_token token) {
  char piece[256];
  const int32_t length = llama_token_to_piece(vocab, token, piece, sizeof piece, 0, false);
  std::fwrite(piece, 1, static_cast<size_t>(std::max(length, 0)), stdout);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: generate LIBRARIES MODEL PROMPT TOKENS\n");
    return 2;
  }
  const int wanted = std::atoi(argv[4]);
  llama_log_set(LogProblems, nullptr);
  ggml_backend_load_all_from_path(argv[1]);
  llama_model* model = llama_model_load_from_file(argv[2], llama_model_default_params());
  if (model == nullptr) return 1;
  llama_context_params parameters = llama_context_default_params();
  parameters.n_ctx = 512;
  parameters.n_threads = 1;
  parameters.n_threads_batch = 1;
  llama_context* context = llama_init_from_model(model, parameters);
  if (context == nullptr) return 1;

  const llama_vocab* vocab = llama_model_get_vocab(model);
  std::vector<llama_token> tokens = Tokenize(vocab, argv[3]);
  std::fputs(argv[3], stdout);
  const auto begin = std::chrono::steady_clock::now();
  int generated = 0;
  for (; generated < wanted; ++generated) {
    const auto count = static_cast<int32_t>(tokens.size());
    if (llama_decode(context, llama_batch_get_one(tokens.data(), count)) != 0) {
      std::fprintf(stderr, "\ngenerate: the engine could not decode\n");
      return 1;
    }
    const float* logits = llama_get_logits_ith(context, -1);
    const float* best = std::max_element(logits, logits + llama_vocab_n_tokens(vocab));
    const auto token = static_cast<llama_token>(best - logits);
    if (llama_vocab_is_eog(vocab, token)) break;
    Print(vocab, token);
    tokens = {token};
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  std::printf("\n(%d tokens, %.0f a second)\n", generated, generated / time.count());
  llama_free(context);
  llama_model_free(model);
  return 0;
}
