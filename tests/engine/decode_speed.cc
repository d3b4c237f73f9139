// decode_speed LIBRARIES MODEL [options]: decodes the same seeded tokens one at a time with
// llama.cpp and prints one JSON line: milliseconds of each token, and what the logits were.
//   --tokens N    how many are timed (64)      --warm N     decoded before them (16)
//   --seed N      of the tokens (1)            --out FILE   [tokens, vocabulary] f32 logits
//   --routes FILE the experts that each token picked: lines "token layer expert expert ..."
//   --repack no   weights stay in the mapped file: no private copy in the kernels' own order
// Random tokens, since a model of random weights that feeds itself runs in a circle.

#include <ggml-backend.h>
#include <ggml.h>
#include <llama.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace {

struct Options {
  uint32_t tokens = 64;
  uint32_t warm = 16;
  uint32_t seed = 1;
  std::string out;
  std::string routes;
  bool repack = true;
};

// Writes the picks of every layer as the engine's graph computes them.
class RouteLog {
 public:
  explicit RouteLog(const std::string& path) : out_(path) {}
  void set_token(uint32_t token) { token_ = token; }

  static bool OnTensor(ggml_tensor* tensor, bool ask, void* data) {
    constexpr char kPicks[] = "ffn_moe_topk-";
    const bool picks = std::strncmp(tensor->name, kPicks, sizeof kPicks - 1) == 0;
    if (ask || !picks) return picks || !ask;
    auto* const log = static_cast<RouteLog*>(data);
    std::vector<int32_t> experts(static_cast<size_t>(tensor->ne[0]));
    ggml_backend_tensor_get(tensor, experts.data(), 0, experts.size() * sizeof experts[0]);
    log->out_ << log->token_ << ' ' << tensor->name + sizeof kPicks - 1;
    for (const int32_t expert : experts) log->out_ << ' ' << expert;
    log->out_ << '\n';
    return true;
  }

 private:
  std::ofstream out_;
  uint32_t token_ = 0;
};

bool ParseOptions(int argc, char** argv, Options& options) {
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--tokens") {
      options.tokens = static_cast<uint32_t>(std::strtoul(value, nullptr, 10));
    } else if (name == "--warm") {
      options.warm = static_cast<uint32_t>(std::strtoul(value, nullptr, 10));
    } else if (name == "--seed") {
      options.seed = static_cast<uint32_t>(std::strtoul(value, nullptr, 10));
    } else if (name == "--out") {
      options.out = value;
    } else if (name == "--routes") {
      options.routes = value;
    } else if (name == "--repack") {
      options.repack = std::strcmp(value, "no") != 0;
    } else {
      return false;
    }
  }
  return argc >= 3 && argc % 2 == 1;
}

void LogProblems(ggml_log_level level, const char* text, void* /*data*/) {
  if (level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!ParseOptions(argc, argv, options)) {
    std::fprintf(stderr,
                 "decode_speed LIBRARIES MODEL [--tokens N] [--warm N] [--seed N] "
                 "[--out FILE] [--routes FILE] [--repack no]\n");
    return 2;
  }
  using Clock = std::chrono::steady_clock;
  const auto milliseconds = [](Clock::duration time) {
    return std::chrono::duration<double, std::milli>(time).count();
  };
  llama_log_set(LogProblems, nullptr);
  const Clock::time_point begin = Clock::now();
  ggml_backend_load_all_from_path(argv[1]);
  llama_model_params model_parameters = llama_model_default_params();
  model_parameters.use_extra_bufts = options.repack;
  llama_model* model = llama_model_load_from_file(argv[2], model_parameters);
  if (model == nullptr) return 1;
  llama_context_params parameters = llama_context_default_params();
  parameters.n_ctx = options.tokens + options.warm;
  parameters.n_threads = 1;
  parameters.n_threads_batch = 1;
  RouteLog routes(options.routes);
  if (!options.routes.empty()) {
    parameters.cb_eval = RouteLog::OnTensor;
    parameters.cb_eval_user_data = &routes;
  }
  llama_context* context = llama_init_from_model(model, parameters);
  if (context == nullptr) return 1;
  const double load = milliseconds(Clock::now() - begin);

  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  std::mt19937 random(options.seed);
  std::ofstream out(options.out, std::ios::binary);
  double first = 0;
  std::string times;
  for (uint32_t i = 0; i < options.warm + options.tokens; ++i) {
    routes.set_token(i);
    auto token = static_cast<llama_token>(random() % static_cast<uint32_t>(vocabulary));
    const Clock::time_point start = Clock::now();
    if (llama_decode(context, llama_batch_get_one(&token, 1)) != 0) {
      std::fprintf(stderr, "decode_speed: token %u could not be decoded\n", i);
      return 1;
    }
    const float* logits = llama_get_logits_ith(context, -1);
    const double time = milliseconds(Clock::now() - start);
    if (i == 0) first = time;
    if (i < options.warm) continue;
    times += (times.empty() ? "" : ", ") + std::to_string(time);
    if (!options.out.empty()) {
      out.write(reinterpret_cast<const char*>(logits),
                static_cast<std::streamsize>(sizeof(float)) * vocabulary);
    }
  }
  std::printf("{\"load_ms\": %.1f, \"first_ms\": %.1f, \"token_ms\": [%s]}\n", load, first,
              times.c_str());
  llama_free(context);
  llama_model_free(model);
  return out ? 0 : 1;
}
